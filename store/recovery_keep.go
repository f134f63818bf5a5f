package store

import (
	"errors"
	"fmt"
	"path"

	"skylark/internal/vfs"
)

const (
	// recoveryDirName takes what recovery removed from the log.
	recoveryDirName = "recovery"
	// maxKeptTailBytes is the most that is kept of the tail of one file.
	maxKeptTailBytes = 64 << 20
	// maxZeroGapBytes of zeros end the search for the end of a removed tail. Pages written before a power cut reach the
	// disk in any order, so a gap is no end; one of this size is taken for it.
	maxZeroGapBytes = 8 << 20
	// maxKeptFiles bounds how many pieces the directory holds, whole log files included; the oldest go first.
	maxKeptFiles = 16
)

// keepRemoved puts aside what endLog is about to remove and tells of it: the tail of the file in which the log ends as
// <offset>.cut, later files that hold anything under their own name with .cut.
func (s *MessageStore) keepRemoved(scan *logScan) {
	end := int64(scan.end)
	why := "no record starts here"
	if scan.stopped != nil {
		why = scan.stopped.Error()
	}
	for _, mf := range s.cl.files.list() {
		if mf.fileFrom+mf.size <= end {
			continue
		}
		pos := max(end-mf.fileFrom, 0)
		n := removedBytes(mf, pos)
		if n == 0 {
			continue
		}
		s.log.Error("commit log cut", "file", mf.path, "position", pos, "sizeBytes", n, "reason", why)
		var kept string
		var err error
		if pos > 0 || mf.fileFrom == end {
			kept, err = s.keepTail(mf, pos, min(n, maxKeptTailBytes))
		} else {
			kept, err = s.keepFile(mf)
		}
		if err != nil {
			// Evidence, not data: a full disk must not keep the store from starting.
			s.log.Error("the removed bytes could not be kept", "file", mf.path, "err", err)
		} else {
			s.log.Warn("the removed bytes are kept", "file", kept)
		}
		s.o.Listener.Truncated(mf.path, pos, n, why)
	}
}

// removedBytes is how much of a file from pos on is not zero, up to the last byte that is not.
func removedBytes(mf *mappedFile, pos int64) int64 {
	const step = 64 << 10
	data := mf.data()
	n, gap := int64(0), int64(0)
	for at := pos; at < mf.size && gap < maxZeroGapBytes && n < maxKeptTailBytes; at += step {
		part := data[at:min(at+step, mf.size)]
		if used := lastNonZero(part); used > 0 {
			n, gap = at+int64(used)-pos, 0
		} else {
			gap += int64(len(part))
		}
	}
	return n
}

// keepTail copies n bytes from pos on.
func (s *MessageStore) keepTail(mf *mappedFile, pos, n int64) (name string, err error) {
	name, err = s.keepName(offsetFileName(mf.fileFrom + pos))
	if err != nil {
		return "", err
	}
	f, err := s.fs.Create(name)
	if err != nil {
		return "", err
	}
	_, err = f.WriteAt(mf.data()[pos:pos+n], 0)
	return name, errors.Join(err, f.Sync(), f.Close())
}

// keepFile moves a whole file; its mapping goes with the file's destruction.
func (s *MessageStore) keepFile(mf *mappedFile) (name string, err error) {
	name, err = s.keepName(path.Base(mf.path))
	if err != nil {
		return "", err
	}
	return name, s.fs.Rename(mf.path, name)
}

// keepName is a free name in the directory, after it has room for one more.
func (s *MessageStore) keepName(base string) (string, error) {
	dir := path.Join(s.o.RootDir, recoveryDirName)
	if err := vfs.MkdirAllSync(s.fs, dir); err != nil {
		return "", err
	}
	names, err := s.fs.List(dir)
	if err != nil {
		return "", err
	}
	taken := make(map[string]bool, len(names))
	for _, name := range names {
		taken[name] = true
	}
	for len(taken) >= maxKeptFiles {
		oldest, err := s.oldestKept(dir, taken)
		if err != nil {
			return "", err
		}
		if err := s.fs.Remove(path.Join(dir, oldest)); err != nil {
			return "", err
		}
		delete(taken, oldest)
	}
	name := base + ".cut"
	for i := 2; taken[name]; i++ {
		name = fmt.Sprintf("%s.%d.cut", base, i)
	}
	return path.Join(dir, name), nil
}

func (s *MessageStore) oldestKept(dir string, names map[string]bool) (oldest string, err error) {
	var at int64
	for name := range names {
		info, err := s.fs.Stat(path.Join(dir, name))
		if err != nil {
			return "", err
		}
		if mtime := info.ModTime().UnixNano(); oldest == "" || mtime < at || mtime == at && name < oldest {
			oldest, at = name, mtime
		}
	}
	return oldest, nil
}
