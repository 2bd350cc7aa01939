package io.lakesmith.storage;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import java.util.UUID;

import io.delta.storage.HadoopFileSystemLogStore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Commits to a Delta log on S3 such that of all writers of one version, in whatever process, exactly one is told that
 * it won.
 *
 * <p>The store decides: a put with `If-None-Match: *` is refused where the name is taken. A put whose answer was lost
 * is sent again by the client, and then refused because of itself; so each write has a number, which is kept with the
 * object and tells whose it is.
 */
public final class S3LogStore extends HadoopFileSystemLogStore {

    private static final String WRITE = "lakesmith-write";

    public S3LogStore(Configuration configuration) {
        super(configuration);
    }

    @Override
    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
            throws IOException {
        FileSystem files = path.getFileSystem(configuration);
        if (overwrite) {
            try (FSDataOutputStream stream = files.create(path, true)) {
                fill(stream, actions);
            }
            return;
        }
        String own = UUID.randomUUID().toString();
        FSDataOutputStreamBuilder<?, ?> builder = files.createFile(path);
        builder.overwrite(true); // or else it would be asked for first, which decides nothing
        builder.recursive();
        builder.must("fs.option.create.conditional.overwrite", true);
        builder.must("fs.s3a.create.header." + WRITE, own);
        FSDataOutputStream stream = (FSDataOutputStream) builder.build();
        try {
            fill(stream, actions);
            stream.close();
        } catch (IOException failure) {
            String winner = writer(files, path, failure);
            if (winner == null) {
                throw failure;
            }
            if (!winner.equals(own)) {
                FileAlreadyExistsException taken = new FileAlreadyExistsException(path.toString());
                taken.initCause(failure);
                throw taken;
            }
        }
    }

    @Override
    public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
        return false;
    }

    /** The write that made the object; empty where that was another program, null where there is none. */
    private static String writer(FileSystem files, Path path, IOException failure) throws IOException {
        try {
            byte[] told = files.getXAttrs(path).get("header." + WRITE);
            return told == null ? "" : new String(told, StandardCharsets.UTF_8);
        } catch (FileNotFoundException absent) {
            return null;
        } catch (IOException unknown) {
            // Whether it is there cannot be told: what failed first is what there is to be said.
            failure.addSuppressed(unknown);
            throw failure;
        }
    }

    private static void fill(FSDataOutputStream stream, Iterator<String> lines) throws IOException {
        while (lines.hasNext()) {
            stream.write((lines.next() + "\n").getBytes(StandardCharsets.UTF_8));
        }
    }
}
