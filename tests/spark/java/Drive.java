import io.delta.storage.LogStore;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;

/** Calls a log store from the command line, and prints one line for each result. */
public final class Drive {

    public static void main(String[] words) throws Exception {
        if (words[0].equals("serve")) {
            serve();
        } else {
            run(words);
        }
    }

    /** Runs one command for each line of input, and prints whether it succeeded. */
    private static void serve() throws IOException {
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            try {
                run(line.replace('\u001e', '\n').split("\u001f"));
                System.out.println("well");
            } catch (Exception failure) {
                System.out.println(failure);
            }
            System.out.println("done");
        }
    }

    private static void run(String[] words) throws Exception {
        Configuration configuration = new Configuration(Boolean.getBoolean("defaults"));
        System.getProperties().forEach((name, value) -> {
            if (name.toString().startsWith("fs.")) {
                configuration.set(name.toString(), value.toString());
            }
        });
        if (words[0].equals("race")) {
            configuration.setClass("fs.file.impl", SlowRename.class, org.apache.hadoop.fs.FileSystem.class);
            SlowRename.delay = Integer.parseInt(words[5]);
        }
        LogStore store = (LogStore) Class.forName(words[1])
            .getConstructor(Configuration.class)
            .newInstance(configuration);
        switch (words[0]) {
            case "race" -> race(store, configuration, words);
            case "commit" -> commit(store, configuration, words);
            case "write" -> write(store, configuration, new Path(words[2]), words[3], Boolean.valueOf(words[4]), 0);
            case "read" -> read(store, configuration, new Path(words[2]));
            case "list" -> list(store.listFrom(new Path(words[2]), configuration));
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    /** Race with another process: both start a version only when both have reached it. */
    private static void race(LogStore store, Configuration configuration, String[] words) throws Exception {
        String folder = words[2];
        int self = Integer.parseInt(words[3]);
        int versions = Integer.parseInt(words[4]);
        int delay = Integer.parseInt(words[5]);
        try (RandomAccessFile file = new RandomAccessFile(words[6], "rw")) {
            MappedByteBuffer progress = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, 128);
            progress.order(ByteOrder.nativeOrder());
            for (int version = 0; version < versions; version++) {
                progress.putInt(self * 64, version + 1);
                java.lang.invoke.VarHandle.fullFence();
                while (progress.getInt((1 - self) * 64) < version + 1) {
                    Thread.yield();
                    java.lang.invoke.VarHandle.fullFence();
                }
                Path path = new Path(folder, String.format("%020d.json", version));
                write(store, configuration, path, self + ":" + version, false, delay);
            }
        }
    }

    /**
     * Make `commits` commits, each with the next free version, beside another process that does the same. With words that
     * name a commit's writer and number, the other process is not Java and is slower: each waits for the other before
     * each commit.
     */
    private static void commit(LogStore store, Configuration configuration, String[] words) throws Exception {
        String folder = words[2];
        int self = Integer.parseInt(words[3]);
        int commits = Integer.parseInt(words[4]);
        boolean inStep = words.length > 6;
        String held = inStep ? words[6] : "%d:%d";
        try (RandomAccessFile file = new RandomAccessFile(words[5], "rw")) {
            MappedByteBuffer ready = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, 128);
            awaitOther(ready, self, 1);
            int version = 0;
            for (int number = 0; number < commits; version++) {
                Path path = new Path(folder, String.format("%020d.json", version));
                if (write(store, configuration, path, String.format(held, self, number), false, 0)) {
                    number++;
                    if (inStep && number < commits) {
                        awaitOther(ready, self, number + 1);
                    }
                }
            }
        }
    }

    /** Wait until the other process has reached the same number. */
    private static void awaitOther(MappedByteBuffer ready, int self, int round) throws InterruptedException {
        ready.putInt(self * 64, round);
        java.lang.invoke.VarHandle.fullFence();
        while (ready.getInt((1 - self) * 64) < round) {
            Thread.sleep(1);
            java.lang.invoke.VarHandle.fullFence();
        }
    }

    private static boolean write(
            LogStore store, Configuration configuration, Path path, String line, boolean overwrite, int delay)
            throws Exception {
        Iterator<String> once = Arrays.asList(line.split("\n")).iterator();
        Iterator<String> slow = new Iterator<>() {
            @Override
            public boolean hasNext() {
                return once.hasNext();
            }

            @Override
            public String next() {
                try {
                    Thread.sleep(delay);
                } catch (InterruptedException interrupted) {
                    throw new IllegalStateException(interrupted);
                }
                return once.next();
            }
        };
        try {
            store.write(path, slow, overwrite, configuration);
            System.out.println("won " + line);
            return true;
        } catch (FileAlreadyExistsException taken) {
            System.out.println("lost " + line);
            return false;
        }
    }

    /** The local file system with a pause before each rename, like a busy disk. */
    public static final class SlowRename extends LocalFileSystem {
        private static int delay;

        @Override
        public boolean rename(Path source, Path target) throws IOException {
            try {
                Thread.sleep(delay);
            } catch (InterruptedException interrupted) {
                throw new IOException(interrupted);
            }
            return super.rename(source, target);
        }
    }

    private static void read(LogStore store, Configuration configuration, Path path) throws IOException {
        try {
            store.read(path, configuration).forEachRemaining(System.out::println);
        } catch (UncheckedIOException rejected) {
            System.out.println("rejected " + rejected.getCause().getClass().getName());
        }
    }

    private static void list(Iterator<FileStatus> files) {
        files.forEachRemaining(file -> System.out.println(file.getPath().getName()));
    }
}
