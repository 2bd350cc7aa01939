package io.lakesmith.storage;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Iterator;
import java.util.Set;
import java.util.zip.CRC32;

import io.delta.storage.HadoopFileSystemLogStore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Commits to a Delta log on a local disk. Of all writers of one version, in any process, exactly one
 * succeeds.
 *
 * <p>Delta's own store checks whether the file exists and then renames over it, guarded only by a lock inside one JVM.
 * Here the operating system decides: creating a hard link fails where the name exists. The linked file is complete
 * and synced before it gets its name, so no reader ever sees a part of a commit. The winner of a version writes a
 * checksum file beside the commit. Spark reads through Hadoop, which verifies it and so detects flipped bits.
 *
 * <p>Spark syncs no data file. So all files of a commit are synced here, before the commit has its name: after a power
 * cut, no commit names empty files.
 */
public final class LocalLogStore extends HadoopFileSystemLogStore {

    private static final int BUFFER = 1 << 16;

    public LocalLogStore(Configuration configuration) {
        super(configuration);
    }

    @Override
    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
            throws IOException {
        java.nio.file.Path target = local(path);
        // The names start with a dot: they sort before all versions, and listings of the log start at a version.
        java.nio.file.Path temporary = local(createTempPath(path));
        java.nio.file.Path temporarySeal = local(createTempPath(path));
        if (!overwrite && Files.exists(target)) {
            throw new FileAlreadyExistsException(target.toString());
        }
        if (overwrite) {
            // Concurrent overwrites could mix up content and checksums, so such files have no checksum file.
            Files.deleteIfExists(Disk.checksumOf(target));
        } else {
            dropStaleSeals(target);
        }
        try {
            Seal sums = new Seal();
            NamedFiles named = new NamedFiles(target.getParent().getParent());
            fill(temporary, actions, sums, named);
            Set<java.nio.file.Path> unsynced = named.all();
            unsynced.add(temporary);
            if (overwrite) {
                // The file may point to another one in this folder, whose name must be durable first.
                unsynced.add(target.getParent());
                Disk.syncExisting(unsynced);
                Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            } else {
                sums.write(temporarySeal);
                unsynced.add(temporarySeal);
                Disk.syncExisting(unsynced);
                link(target, temporary);
                put(Disk.checksumOf(target), temporarySeal);
            }
        } finally {
            discard(temporary);
            discard(temporarySeal);
        }
        // The name, too, must be durable before the commit is acknowledged.
        Disk.sync(target.getParent());
    }

    /**
     * This store's writes are atomic, but Delta writes checkpoints by itself. Only with `true` does it write them under
     * a temporary name first.
     */
    @Override
    public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
        return true;
    }

    private static java.nio.file.Path local(Path path) {
        return new File(path.toUri().getPath()).toPath().toAbsolutePath();
    }

    /**
     * Removes checksum files of deleted files with the same names, which would make the new commit, or what Delta writes
     * beside it, unreadable. They are stale if the file is missing after its checksum file was seen: a checksum file is
     * written after its file has its name.
     */
    private static void dropStaleSeals(java.nio.file.Path commit) throws IOException {
        String version = commit.getFileName().toString().replaceFirst("\\.json$", "");
        for (String kind : new String[] {".json", ".crc", ".checkpoint.parquet"}) {
            java.nio.file.Path file = commit.resolveSibling(version + kind);
            if (Files.exists(Disk.checksumOf(file)) && !Files.exists(file)) {
                Files.deleteIfExists(Disk.checksumOf(file));
            }
        }
    }

    private static void fill(java.nio.file.Path file, Iterator<String> lines, Seal sums, NamedFiles named)
            throws IOException {
        try (FileChannel channel =
                FileChannel.open(file, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
            StringBuilder pending = new StringBuilder();
            while (lines.hasNext()) {
                String line = lines.next();
                named.add(line);
                pending.append(line).append('\n');
                if (pending.length() >= BUFFER || !lines.hasNext()) {
                    byte[] bytes = pending.toString().getBytes(StandardCharsets.UTF_8);
                    sums.add(bytes);
                    writeAll(channel, ByteBuffer.wrap(bytes));
                    pending.setLength(0);
                }
            }
        }
    }

    private static void writeAll(FileChannel channel, ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            channel.write(bytes);
        }
    }

    private static void link(java.nio.file.Path target, java.nio.file.Path complete) throws IOException {
        try {
            Files.createLink(target, complete);
        } catch (FileAlreadyExistsException taken) {
            // A network file system may lose the reply to a link that it created, and reject the retry.
            if (!Files.isSameFile(target, complete)) {
                throw taken;
            }
        }
    }

    private static void put(java.nio.file.Path seal, java.nio.file.Path complete) {
        try {
            Files.move(complete, seal, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException ignored) {
            // The commit is made and must be reported as such; without checksums it is read unverified.
        }
    }

    private static void discard(java.nio.file.Path temporary) {
        try {
            Files.deleteIfExists(temporary);
        } catch (IOException ignored) {
            // The outcome is decided and must be reported as such; nobody reads leftovers.
        }
    }

    /** The content of Hadoop's checksum file: a magic number, the chunk size, and the CRC-32 of each chunk. */
    private static final class Seal {

        private static final byte[] FORM = {'c', 'r', 'c', 0};
        private static final int PIECE = 512;

        private final ByteArrayOutputStream sums = new ByteArrayOutputStream();
        private final CRC32 piece = new CRC32();
        private int filled;

        void add(byte[] bytes) {
            for (int at = 0; at < bytes.length; ) {
                int length = Math.min(PIECE - filled, bytes.length - at);
                piece.update(bytes, at, length);
                filled += length;
                at += length;
                if (filled == PIECE) {
                    endPiece();
                }
            }
        }

        void write(java.nio.file.Path file) throws IOException {
            if (filled > 0) {
                endPiece();
            }
            ByteBuffer bytes = ByteBuffer.allocate(FORM.length + Integer.BYTES + sums.size());
            bytes.put(FORM).putInt(PIECE).put(sums.toByteArray()).flip();
            try (FileChannel channel =
                    FileChannel.open(file, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
                writeAll(channel, bytes);
            }
        }

        private void endPiece() {
            sums.writeBytes(ByteBuffer.allocate(Integer.BYTES).putInt((int) piece.getValue()).array());
            piece.reset();
            filled = 0;
        }
    }
}
