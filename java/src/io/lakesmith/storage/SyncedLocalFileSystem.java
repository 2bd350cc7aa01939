package io.lakesmith.storage;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;

import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, with two differences.
 *
 * <p>Files are synced before a rename in a Delta log. Delta writes checkpoints and version checksum files without its
 * log store, and a power cut must not leave them half written under their final names. And permissions
 * are set by a system call, where Hadoop starts a process for each file.
 */
public final class SyncedLocalFileSystem extends LocalFileSystem {

    private static final PosixFilePermission[] BITS = {
        PosixFilePermission.OTHERS_EXECUTE,
        PosixFilePermission.OTHERS_WRITE,
        PosixFilePermission.OTHERS_READ,
        PosixFilePermission.GROUP_EXECUTE,
        PosixFilePermission.GROUP_WRITE,
        PosixFilePermission.GROUP_READ,
        PosixFilePermission.OWNER_EXECUTE,
        PosixFilePermission.OWNER_WRITE,
        PosixFilePermission.OWNER_READ,
    };

    public SyncedLocalFileSystem() {
        super(new Raw());
    }

    @Override
    public boolean rename(Path source, Path target) throws IOException {
        if (target.getParent() != null && target.getParent().getName().equals("_delta_log")) {
            java.nio.file.Path file = pathToFile(source).toPath();
            Disk.syncExisting(Set.of(file, Disk.checksumOf(file)));
        }
        return super.rename(source, target);
    }

    private static final class Raw extends RawLocalFileSystem {

        @Override
        public void setPermission(Path path, FsPermission permission) throws IOException {
            Set<PosixFilePermission> bits = EnumSet.noneOf(PosixFilePermission.class);
            for (int bit = 0; bit < BITS.length; bit++) {
                if ((permission.toShort() >> bit & 1) == 1) {
                    bits.add(BITS[bit]);
                }
            }
            Files.setPosixFilePermissions(pathToFile(path).toPath(), bits);
        }
    }
}
