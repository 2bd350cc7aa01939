package io.lakesmith.storage;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

/** The files that a commit adds to a table: data files, change data and deletion vectors. */
final class NamedFiles {

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String Z85 =
            "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
    private static final int UUID_LENGTH = 20;

    private final Path table;
    private final Map<String, Path> data = new HashMap<>();
    private final Set<Path> vectors = new HashSet<>();
    private final Set<String> removed = new HashSet<>();

    NamedFiles(Path table) {
        this.table = table;
    }

    /** Add the files that an action names. */
    void add(String line) throws IOException {
        if (line.startsWith("{\"add\"") || line.startsWith("{\"cdc\"")) {
            JsonNode action = JSON.readTree(line).elements().next();
            String path = action.path("path").asText();
            data.put(path, locate(path));
            addVector(action.path("deletionVector"));
        } else if (line.startsWith("{\"remove\"")) {
            removed.add(JSON.readTree(line).elements().next().path("path").asText());
        }
    }

    /** The files, their checksum files, and their folders up to the table's own. */
    Set<Path> all() {
        // A file that the commit also removes was in the table before: only its deletion vector is new.
        data.keySet().removeAll(removed);
        Set<Path> files = new HashSet<>(vectors);
        files.addAll(data.values());
        Set<Path> all = new HashSet<>();
        all.add(table);
        for (Path file : files) {
            all.add(file);
            all.add(Disk.checksumOf(file));
            for (Path folder = file.getParent(); folder.startsWith(table); folder = folder.getParent()) {
                all.add(folder);
            }
        }
        return all;
    }

    private void addVector(JsonNode vector) {
        String place = vector.path("pathOrInlineDv").asText();
        switch (vector.path("storageType").asText()) {
            case "u":
                int prefix = place.length() - UUID_LENGTH;
                String name = "deletion_vector_" + uuid(place.substring(prefix)) + ".bin";
                vectors.add(table.resolve(place.substring(0, prefix)).resolve(name));
                break;
            case "p":
                vectors.add(locate(place));
                break;
            default:
                // None, or one inside of the commit.
        }
    }

    /** The path of a file in the log: encoded as in a URI, relative to the table or absolute. */
    private Path locate(String path) {
        try {
            return table.resolve(new URI(path).getPath());
        } catch (URISyntaxException plain) {
            return table.resolve(path);
        }
    }

    private static UUID uuid(String encoded) {
        ByteBuffer bytes = ByteBuffer.allocate(Long.BYTES * 2);
        for (int at = 0; at < encoded.length(); at += 5) {
            long value = 0;
            for (char letter : encoded.substring(at, at + 5).toCharArray()) {
                value = value * Z85.length() + Z85.indexOf(letter);
            }
            bytes.putInt((int) value);
        }
        return new UUID(bytes.getLong(0), bytes.getLong(Long.BYTES));
    }
}
