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
 * Commits to a Delta log on a local disk such that of all writers of one version, in whatever process, exactly one
 * is told that it won.
 *
 * <p>Delta's own store asks whether the file exists and then renames over it, which only a lock inside one JVM guards.
 * Here the operating system decides: a hard link cannot be made to a name that is taken. The linked file is complete
 * and on the disk before it gets its name, so nobody ever reads a part of a commit. Whoever won the name puts a checksum
 * beside it that Hadoop, through which Spark reads, holds the commit to: a bit that flips later is not believed.
 *
 * <p>Spark syncs no data file. All that a commit names is therefore synced here, before the commit has its name: a power
 * cut must not leave a commit that names empty files.
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
        // The names start with a dot: they sort before every version, and listings of the log start at a version.
        java.nio.file.Path temporary = local(createTempPath(path));
        java.nio.file.Path temporarySeal = local(createTempPath(path));
        if (!overwrite && Files.exists(target)) {
            throw new FileAlreadyExistsException(target.toString());
        }
        if (overwrite) {
            // Two who overwrite at one time would seal each other's content, so such files have no seal.
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
                // The file may point to another in this folder, which must not lose its name before it.
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
        // The name, too, must survive a power cut before the commit is acknowledged.
        Disk.sync(target.getParent());
    }

    /**
     * What this store writes appears as a whole, but Delta asks for the sake of checkpoints, which it writes itself: only
     * when told that a part of a file can be seen does it write them under another name first.
     */
    @Override
    public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
        return true;
    }

    private static java.nio.file.Path local(Path path) {
        return new File(path.toUri().getPath()).toPath().toAbsolutePath();
    }

    /**
     * A seal that an older file of the same name has left would make the new one unreadable, be it a commit or what Delta
     * writes beside it. It is older if the file is not there after the seal was seen: files are sealed once they have
     * their names.
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
            // A network file system may lose the reply to a link that it made, and refuse the repetition.
            if (!Files.isSameFile(target, complete)) {
                throw taken;
            }
        }
    }

    private static void put(java.nio.file.Path seal, java.nio.file.Path complete) {
        try {
            Files.move(complete, seal, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException ignored) {
            // The commit is made and must be told as it is; without a seal it is read without checking.
        }
    }

    private static void discard(java.nio.file.Path temporary) {
        try {
            Files.deleteIfExists(temporary);
        } catch (IOException ignored) {
            // The outcome is decided and must be told as it is; nobody reads what stays behind.
        }
    }

    /** The checksum that Hadoop keeps beside a file and holds it to: a form, the size of a piece, a CRC-32 of each. */
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
