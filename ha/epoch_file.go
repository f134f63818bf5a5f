package ha

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"skylark/internal/vfs"
	"skylark/store"
)

// maxEpochFileBytes is more than maxEpochEntries lines of any numbers have.
const maxEpochFileBytes = 1 << 20

// epochSum is Java's CRC32 of lines: without the highest bit.
func epochSum(lines []byte) uint32 { return crc32.ChecksumIEEE(lines) & 0x7FFFFFFF }

// formatEpochs makes the content of the file, see doc.go.
func formatEpochs(list []EpochEntry) []byte {
	var lines []byte
	for _, x := range list {
		lines = fmt.Appendf(lines, "%d-%d\n", x.Epoch, x.StartOffset)
	}
	return append(fmt.Appendf(nil, "%d\n%d\n", len(list), epochSum(lines)), lines...)
}

// parseEpochs reads what formatEpochs or Java made.
func parseEpochs(b []byte) ([]EpochEntry, error) {
	count, rest, ok := bytes.Cut(b, []byte("\n"))
	sum, lines, ok2 := bytes.Cut(rest, []byte("\n"))
	n, err := strconv.Atoi(strings.TrimSpace(string(count)))
	want, err2 := strconv.ParseUint(strings.TrimSpace(string(sum)), 10, 31)
	if err := errors.Join(err, err2); err != nil || !ok || !ok2 || n < 0 {
		return nil, errors.New("the first two lines are no count and no checksum")
	}
	if got := epochSum(lines); want != 0 && got != uint32(want) { // 0: not checked (Java)
		return nil, fmt.Errorf("the checksum is %d, the lines have %d", want, got)
	}
	var list []EpochEntry
	for line := range strings.Lines(string(lines)) {
		epoch, start, _ := strings.Cut(strings.TrimSpace(line), "-")
		e, err := strconv.ParseInt(epoch, 10, 32)
		p, err2 := strconv.ParseInt(start, 10, 64)
		entry := EpochEntry{Epoch: int32(e), StartOffset: store.PhyOffset(p)}
		switch {
		case err != nil || err2 != nil || e < 0 || p < 0:
			return nil, fmt.Errorf("line %d is no epoch: %q", len(list)+3, line)
		case len(list) > 0 && !entry.follows(list[len(list)-1]):
			return nil, fmt.Errorf("line %d does not follow the one before: %q", len(list)+3, line)
		}
		list = append(list, entry)
	}
	if len(list) != n {
		return nil, fmt.Errorf("%d epochs are announced, %d are there", n, len(list))
	}
	return linked(list), nil
}

func readEpochs(fsys vfs.FS, path string) ([]EpochEntry, error) {
	info, err := fsys.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("ha: %w", err)
	}
	if info.Size() > maxEpochFileBytes {
		return nil, fmt.Errorf("ha: %s has %d bytes, a file of epochs has %d at most", path, info.Size(), maxEpochFileBytes)
	}
	b, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return nil, fmt.Errorf("ha: %w", err)
	}
	list, err := parseEpochs(b)
	if err != nil {
		return nil, fmt.Errorf("ha: %s: %w", path, err)
	}
	return list, nil
}

// writeEpochs replaces the file. Without epochs there is none, nor a .bak, which Java would read then.
func writeEpochs(fsys vfs.FS, path string, list []EpochEntry) error {
	if len(list) > 0 {
		if err := vfs.WriteFileAtomic(fsys, path, formatEpochs(list), true); err != nil {
			return fmt.Errorf("ha: %s: %w", path, err)
		}
		return nil
	}
	for _, name := range []string{path + vfs.BackupSuffix, path} {
		if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("ha: %w", err)
		}
	}
	if err := fsys.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("ha: %w", err)
	}
	return nil
}
