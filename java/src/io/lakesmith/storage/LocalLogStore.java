package io.lakesmith.storage;

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

import io.delta.storage.HadoopFileSystemLogStore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Commits to a Delta log on a local disk such that of all writers of one version, in whatever process, exactly one
 * is told that it won.
 *
 * <p>Delta's own store asks whether the file exists and then renames over it, which only a lock inside one JVM guards.
 * Here the operating system decides: a hard link cannot be made to a name that is taken. The linked file is complete
 * and on the disk before it gets its name, so nobody ever reads a part of a commit.
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
        // The name starts with a dot: it sorts before every version, and listings of the log start at a version.
        java.nio.file.Path temporary = local(createTempPath(path));
        if (!overwrite && Files.exists(target)) {
            throw new FileAlreadyExistsException(target.toString());
        }
        try {
            fill(temporary, actions);
            // Hadoop checks what it reads against a checksum beside the file. One that belongs to an older file of this
            // name would make the new one unreadable; without one, Hadoop reads without checking.
            Files.deleteIfExists(target.resolveSibling("." + target.getFileName() + ".crc"));
            if (overwrite) {
                Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            } else {
                link(target, temporary);
            }
        } finally {
            discard(temporary);
        }
        // The name, too, must survive a power cut before the commit is acknowledged.
        try (FileChannel folder = FileChannel.open(target.getParent(), StandardOpenOption.READ)) {
            folder.force(true);
        }
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

    private static void fill(java.nio.file.Path file, Iterator<String> lines) throws IOException {
        try (FileChannel channel =
                FileChannel.open(file, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
            StringBuilder pending = new StringBuilder();
            while (lines.hasNext()) {
                pending.append(lines.next()).append('\n');
                if (pending.length() >= BUFFER || !lines.hasNext()) {
                    ByteBuffer bytes = StandardCharsets.UTF_8.encode(pending.toString());
                    while (bytes.hasRemaining()) {
                        channel.write(bytes);
                    }
                    pending.setLength(0);
                }
            }
            channel.force(true);
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

    private static void discard(java.nio.file.Path temporary) {
        try {
            Files.deleteIfExists(temporary);
        } catch (IOException ignored) {
            // The outcome is decided and must be told as it is; nobody reads what stays behind.
        }
    }
}
