package persist

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"reflect"
	"time"

	"skylark/codec/fastjson"
	"skylark/internal/vfs"
)

// ErrDamaged marks a file that can be read neither itself nor from its backup. What there was has been kept aside: the
// caller may start with an empty table.
var ErrDamaged = errors.New("persist: damaged")

// Load reads path into v, a pointer to a zero value, from path.bak if it is missing, empty or damaged; then the backup's
// content is put in its place, so that the next Save does not make a backup of the damage. found is false when neither
// file exists. With ErrDamaged v is zero and both files have been copied to <name>.damaged-<time>. Any other error means
// that a file can neither be read nor kept aside: writing would destroy it.
func Load(fsys vfs.FS, path string, v any, log *slog.Logger) (found bool, err error) {
	_, first := read(fsys, path, v)
	if first == nil {
		return true, nil
	}
	data, second := read(fsys, path+vfs.BackupSuffix, v)
	missing, noBackup := errors.Is(first, fs.ErrNotExist), errors.Is(second, fs.ErrNotExist)
	if missing && noBackup {
		return false, nil
	}
	if err := keepAside(fsys, path, log); err != nil {
		return false, err
	}
	if second == nil {
		log.Error("config file is missing or damaged, its backup is in force", "file", path, "error", first)
		if err := vfs.WriteFileAtomic(fsys, path, data, false); err != nil {
			log.Error("config file could not be restored from its backup", "file", path, "error", err)
		}
		return true, nil
	}
	if err := keepAside(fsys, path+vfs.BackupSuffix, log); err != nil {
		return false, err
	}
	return false, fmt.Errorf("%w: %s: %w; %s.bak: %w", ErrDamaged, path, first, path, second)
}

var errEmpty = errors.New("the file is empty")

// read leaves v zero when it fails.
func read(fsys vfs.FS, path string, v any) ([]byte, error) {
	data, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return nil, errEmpty
	}
	if err := fastjson.Unmarshal(data, v); err != nil {
		reflect.ValueOf(v).Elem().SetZero()
		return nil, err
	}
	return data, nil
}

// keepAside copies a file, or moves it if it cannot be read. A missing file is no error.
func keepAside(fsys vfs.FS, path string, log *slog.Logger) error {
	if _, err := fsys.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	aside := path + ".damaged-" + time.Now().UTC().Format("20060102T150405.000")
	data, err := vfs.ReadFile(fsys, path)
	if err == nil {
		err = vfs.WriteFileAtomic(fsys, aside, data, false)
	}
	if err != nil {
		if fsys.Rename(path, aside) != nil {
			return fmt.Errorf("persist: %s is damaged and could not be kept aside: %w", path, err)
		}
	}
	log.Warn("damaged config file kept aside", "file", path, "copy", aside)
	return nil
}

// Save writes v to path as Java's fastjson prints it, the old content to path.bak.
func Save(fsys vfs.FS, path string, v any) error {
	data, err := fastjson.MarshalPretty(v)
	if err != nil {
		return fmt.Errorf("persist: %s: %w", path, err)
	}
	if err := vfs.WriteFileAtomic(fsys, path, data, true); err != nil {
		return fmt.Errorf("persist: %w", err)
	}
	return nil
}
