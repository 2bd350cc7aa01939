package io.lakesmith.storage;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.channels.FileChannel;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Syncs files to disk. */
final class Disk {

    private static final ThreadPoolExecutor THREADS =
            new ThreadPoolExecutor(16, 16, 10, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), work -> {
                Thread thread = new Thread(work, "lakesmith-sync");
                thread.setDaemon(true);
                return thread;
            });

    static {
        THREADS.allowCoreThreadTimeOut(true);
    }

    private Disk() {}

    /** Sync the content of a file, or the names in a folder. */
    static void sync(Path path) throws IOException {
        try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
            channel.force(true);
        }
    }

    /**
     * Sync files at the same time: a slow disk syncs many files as fast as one. Missing files are skipped: a restore
     * may name deleted files, and Delta decides whether it may.
     */
    static void syncExisting(Collection<Path> files) throws IOException {
        List<Future<?>> syncs = new ArrayList<>();
        for (Path file : files) {
            syncs.add(THREADS.submit(() -> {
                try {
                    sync(file);
                } catch (NoSuchFileException gone) {
                    // Nothing to sync.
                }
                return null;
            }));
        }
        try {
            for (Future<?> sync : syncs) {
                sync.get();
            }
        } catch (ExecutionException failed) {
            throw failed.getCause() instanceof IOException cause ? cause : new IOException(failed.getCause());
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted while files were synced");
        }
    }

    /** The path of a file's checksum file in Hadoop. */
    static Path checksumOf(Path file) {
        return file.resolveSibling("." + file.getFileName() + ".crc");
    }
}
