package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// Suffixes of the files that stand beside a file written by WriteFileAtomic.
const (
	// BackupSuffix is the previous content, as ConfigManager.load of Java looks for it.
	BackupSuffix = ".bak"
	// TempSuffix is content on its way; such a file never means anything after a restart.
	TempSuffix = ".tmp"
)

// MaxReadFileBytes is the largest file ReadFile takes into memory. The largest configuration file,
// consumerOffset.json of a broker with a million group-topic pairs, is near 100 MiB.
const MaxReadFileBytes = 1 << 30

// ReadFile returns the whole content of a file. A missing file is fs.ErrNotExist; one larger than
// MaxReadFileBytes is refused before anything is allocated.
func ReadFile(fsys FS, name string) (data []byte, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > MaxReadFileBytes {
		return nil, fmt.Errorf("vfs: %s has %d bytes, the limit for reading whole is %d",
			name, info.Size(), MaxReadFileBytes)
	}
	data = make([]byte, info.Size())
	n, err := f.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return data[:n], nil
}

// WriteFileAtomic replaces the content of a file so that a crash at any point leaves the old or the new
// content under name, whole. With backup the old content is kept as name + ".bak". It returns after
// everything is durable.
//
// Both contents are written and synced under a temporary name first, then the new content is renamed, and
// the backup last. Java's MixAll.string2File writes the backup first; if the file was damaged before, a
// crash between its two writes leaves two damaged files and no good one. Here the backup changes only after
// the file itself is good.
//
// The temporary names are fixed (".tmp", ".bak.tmp"): a leftover of a crash is overwritten or removed by
// the next call, and there is never more than one of each. Calls for the same name must not overlap. On
// failure the temporary files are removed and the previous content stands; if it was SyncDir that failed,
// the new content is visible and either one may be there after a crash.
func WriteFileAtomic(fsys FS, name string, data []byte, backup bool) error {
	temp, backupTemp := name+TempSuffix, name+BackupSuffix+TempSuffix
	if err := writeAtomic(fsys, name, data, backup); err != nil {
		return errors.Join(err, removeIfExists(fsys, temp), removeIfExists(fsys, backupTemp))
	}
	return nil
}

func writeAtomic(fsys FS, name string, data []byte, backup bool) error {
	temp, backupTemp := name+TempSuffix, name+BackupSuffix+TempSuffix
	if err := writeFileSync(fsys, temp, data); err != nil {
		return err
	}
	hasOld := false
	if backup {
		old, err := ReadFile(fsys, name)
		switch {
		case err == nil:
			hasOld = true
			err = writeFileSync(fsys, backupTemp, old)
		case errors.Is(err, fs.ErrNotExist):
			err = nil
		}
		if err != nil {
			return err
		}
	}
	if err := fsys.Rename(temp, name); err != nil {
		return err
	}
	var err error
	if hasOld {
		err = fsys.Rename(backupTemp, name+BackupSuffix)
	} else {
		err = removeIfExists(fsys, backupTemp)
	}
	if err != nil {
		return err
	}
	return fsys.SyncDir(path.Dir(name))
}

// writeFileSync creates name with data and makes the content, not the name, durable.
func writeFileSync(fsys FS, name string, data []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(f.Sync(), f.Close())
}

func removeIfExists(fsys FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// MkdirAllSync is MkdirAll whose result survives a crash: it syncs the parent of every directory it
// creates. Without it a whole data directory can vanish although each file in it was synced. The parent of
// dir is synced even if dir exists: a process that was killed may have created it and not come to its sync.
func MkdirAllSync(fsys FS, dir string) error {
	dir = path.Clean(dir)
	created := []string{dir} // innermost first; dir itself in any case
	for at := dir; ; at = path.Dir(at) {
		_, err := fsys.Stat(at)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if at != dir {
			created = append(created, at)
		}
		if at == path.Dir(at) {
			break
		}
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	for i := len(created) - 1; i >= 0; i-- {
		if err := fsys.SyncDir(path.Dir(created[i])); err != nil {
			return err
		}
	}
	return nil
}
