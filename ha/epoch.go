package ha

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"slices"
	"sync"

	"skylark/internal/vfs"
	"skylark/store"
)

// EpochEntry is the part of a log that one master wrote (Java EpochEntry): [StartOffset, EndOffset). The last one has no
// end yet: math.MaxInt64.
type EpochEntry struct {
	Epoch       int32
	StartOffset store.PhyOffset
	EndOffset   store.PhyOffset
}

// NoEpoch is the epoch of bytes from before the first master that a controller chose, and of an empty list.
const NoEpoch int32 = -1

// maxEpochEntries bounds the list; the oldest are forgotten. Java's master sends 1000 at most.
const maxEpochEntries = 1000

// ErrEpochOrder answers an entry that does not follow the last one.
var ErrEpochOrder = errors.New("ha: the epoch is not newer than the last one")

// Epochs are the epochs of a log in order (Java EpochFileCache), and the file that keeps them (see doc.go). All methods
// may be called from any goroutine.
//
// An epoch may be empty: its master wrote nothing. Java drops such an epoch when it is appended, and labels what the next
// master writes at the same offset with the older one; a replica that has other bytes of that epoch is then taken for equal.
// Here both are kept, which Java reads. A label is stored before the first byte of its epoch is.
type Epochs struct {
	fs   vfs.FS
	path string // "" keeps them in memory only

	mu   sync.Mutex
	list []EpochEntry
}

// NewEpochs are epochs without a file, for comparisons and tests.
func NewEpochs(entries ...EpochEntry) *Epochs {
	e := &Epochs{}
	e.list = linked(entries)
	return e
}

// OpenEpochs reads the file of epochs; none is an empty list. A damaged file is replaced by its .bak, which is what it was
// before the write that a crash interrupted; when that is damaged too, or missing, the error names both.
func OpenEpochs(fsys vfs.FS, path string, log *slog.Logger) (*Epochs, error) {
	e := &Epochs{fs: fsys, path: path}
	list, err := readEpochs(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		if list, err = readEpochs(fsys, path+vfs.BackupSuffix); errors.Is(err, fs.ErrNotExist) {
			return e, nil
		}
	} else if err != nil {
		log.Error("file of epochs is damaged, the one before it is taken", "err", err)
		var backupErr error
		if list, backupErr = readEpochs(fsys, path+vfs.BackupSuffix); backupErr != nil {
			err = errors.Join(err, backupErr)
		} else {
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w; without its epochs a replica cannot find what it has in common with its master: put the "+
			"file of before, or remove the directory of the store to copy the replica anew", err)
	}
	e.list = list
	return e, nil
}

// linked gives a copy whose ends are the starts of what follows.
func linked(entries []EpochEntry) []EpochEntry {
	list := slices.Clone(entries)
	for i := range list {
		list[i].EndOffset = math.MaxInt64
		if i > 0 {
			list[i-1].EndOffset = list[i].StartOffset
		}
	}
	return list
}

// follows tells that an entry may stand behind another one.
func (e EpochEntry) follows(last EpochEntry) bool {
	return e.Epoch > last.Epoch && e.StartOffset >= last.StartOffset
}

// Entries is a copy of the list, the oldest first.
func (e *Epochs) Entries() []EpochEntry {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.list)
}

// Last is the newest epoch, NoEpoch without any.
func (e *Epochs) Last() int32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.list) == 0 {
		return NoEpoch
	}
	return e.list[len(e.list)-1].Epoch
}

// At is the epoch of the byte at p. Before the first one it is NoEpoch from 0 on.
func (e *Epochs) At(p store.PhyOffset) EpochEntry {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := len(e.list) - 1; i >= 0; i-- { // nearly always the last one
		if e.list[i].StartOffset <= p {
			return e.list[i] // of several with this start all but the last are empty
		}
	}
	first := EpochEntry{Epoch: NoEpoch, EndOffset: math.MaxInt64}
	if len(e.list) > 0 {
		first.EndOffset = e.list[0].StartOffset
	}
	return first
}

// Append adds an epoch that begins at start, durably. The one before it may be empty. ErrEpochOrder if it is not newer.
func (e *Epochs) Append(epoch int32, start store.PhyOffset) error {
	return e.change(func(list []EpochEntry) ([]EpochEntry, error) {
		entry := EpochEntry{epoch, start, math.MaxInt64}
		if epoch < 0 || start < 0 || len(list) > 0 && !entry.follows(list[len(list)-1]) {
			return nil, fmt.Errorf("%w: epoch %d from %d on, last are %v", ErrEpochOrder, epoch, start, tail(list, 1))
		}
		return tail(append(list, entry), maxEpochEntries), nil
	})
}

func tail(list []EpochEntry, n int) []EpochEntry { return list[max(len(list)-n, 0):] }

// TruncateSuffix forgets the epochs that begin at p or behind: the log ends at p now (Java truncateSuffixByOffset).
func (e *Epochs) TruncateSuffix(p store.PhyOffset) error {
	return e.remove(func(x EpochEntry) bool { return x.StartOffset >= p })
}

// TruncateFrom forgets the epochs from one on (Java truncateSuffixByEpoch).
func (e *Epochs) TruncateFrom(epoch int32) error {
	return e.remove(func(x EpochEntry) bool { return x.Epoch >= epoch })
}

// TruncatePrefix forgets the epochs whose bytes have all expired: the log begins at p (Java truncatePrefixByOffset).
func (e *Epochs) TruncatePrefix(p store.PhyOffset) error {
	return e.remove(func(x EpochEntry) bool { return x.EndOffset <= p && x.StartOffset < p })
}

func (e *Epochs) remove(which func(EpochEntry) bool) error {
	return e.change(func(list []EpochEntry) ([]EpochEntry, error) { return slices.DeleteFunc(list, which), nil })
}

// change replaces the list by what f makes of a copy, in the file first.
func (e *Epochs) change(f func([]EpochEntry) ([]EpochEntry, error)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	list, err := f(slices.Clone(e.list))
	if err != nil {
		return err
	}
	list = linked(list)
	if slices.Equal(list, e.list) {
		return nil
	}
	if e.path != "" {
		if err := writeEpochs(e.fs, e.path, list); err != nil {
			return err
		}
	}
	e.list = list
	return nil
}

// consistentPoint is up to where two logs are the same by their epochs (Java findConsistentPoint): an epoch belongs to one
// master, so from its start on both have the same bytes, up to where it ends first. ends are the ends of the logs. false:
// they have no epoch in common.
func consistentPoint(own, master []EpochEntry, ownEnd, masterEnd store.PhyOffset) (store.PhyOffset, bool) {
	m := len(master) - 1
	for o := len(own) - 1; o >= 0; o-- {
		for m >= 0 && master[m].Epoch > own[o].Epoch {
			m--
		}
		if m >= 0 && master[m].Epoch == own[o].Epoch && master[m].StartOffset == own[o].StartOffset {
			return min(own[o].EndOffset, master[m].EndOffset, ownEnd, masterEnd), true
		}
	}
	return 0, false
}
