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
 * Commits to a Delta log on S3. Of all writers of one version, in any process, exactly one
 * succeeds.
 *
 * <p>The store decides: a put with `If-None-Match: *` fails where the name exists. When the reply to a put is lost,
 * the client retries it, and the retry fails because of the first attempt. So each write has an id, which is stored
 * with the object and identifies its writer.
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
        builder.overwrite(true); // otherwise a check for existence comes first, which decides nothing
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

    /** The id of the write that created the object; empty for other programs, null where there is no object. */
    private static String writer(FileSystem files, Path path, IOException failure) throws IOException {
        try {
            byte[] id = files.getXAttrs(path).get("header." + WRITE);
            return id == null ? "" : new String(id, StandardCharsets.UTF_8);
        } catch (FileNotFoundException absent) {
            return null;
        } catch (IOException unknown) {
            // Whether the object exists is unknown: report the first failure.
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
