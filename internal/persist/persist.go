package persist

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"skylark/codec/fastjson"
	"skylark/internal/vfs"
)

// ErrDamaged marks a file that can be read neither itself nor from its backup.
var ErrDamaged = errors.New("persist: damaged")

// Load reads path into v, from path.bak if it is missing, empty or damaged. found is false when neither exists. With
// ErrDamaged v is in an undefined state and both files have been copied to <name>.damaged-<time>.
func Load(fsys vfs.FS, path string, v any, log *slog.Logger) (found bool, err error) {
	first := read(fsys, path, v)
	if first == nil {
		return true, nil
	}
	second := read(fsys, path+".bak", v)
	missing := errors.Is(first, fs.ErrNotExist)
	if second == nil {
		if !missing {
			log.Error("config file is damaged, its backup is in force", "file", path, "error", first)
			keepAside(fsys, path, log)
		}
		return true, nil
	}
	if missing && errors.Is(second, fs.ErrNotExist) {
		return false, nil
	}
	keepAside(fsys, path, log)
	keepAside(fsys, path+".bak", log)
	return false, fmt.Errorf("%w: %s: %w; %s.bak: %w", ErrDamaged, path, first, path, second)
}

var errEmpty = errors.New("the file is empty")

func read(fsys vfs.FS, path string, v any) error {
	data, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return errEmpty
	}
	return fastjson.Unmarshal(data, v)
}

func keepAside(fsys vfs.FS, path string, log *slog.Logger) {
	data, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return // there is nothing to keep
	}
	aside := path + ".damaged-" + time.Now().UTC().Format("20060102T150405.000")
	if err := vfs.WriteFileAtomic(fsys, aside, data, false); err != nil {
		log.Error("damaged config file could not be kept aside", "file", path, "error", err)
		return
	}
	log.Warn("damaged config file kept aside", "file", path, "copy", aside)
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
