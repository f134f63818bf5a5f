package errorfs

import (
	"fmt"
	"strings"
)

// Kind is the kind of an operation, or a set of them.
type Kind uint32

// The operations of vfs.FS, vfs.File and vfs.Mapping, under the names that expressions use.
const (
	OpOpen          Kind = 1 << iota // open: FS.Open
	OpOpenReadWrite                  // openrw: FS.OpenReadWrite
	OpCreate                         // create: FS.Create
	OpRemove                         // remove: FS.Remove
	OpRemoveAll                      // removeall: FS.RemoveAll
	OpRename                         // rename: FS.Rename
	OpMkdir                          // mkdir: FS.MkdirAll
	OpList                           // list: FS.List
	OpStat                           // stat: FS.Stat and File.Stat
	OpChtimes                        // chtimes: FS.Chtimes
	OpSyncDir                        // syncdir: FS.SyncDir
	OpUsage                          // usage: FS.Usage
	OpLock                           // lock: FS.Lock
	OpUnlock                         // unlock: Close of what FS.Lock returned
	OpRead                           // read: File.ReadAt
	OpWrite                          // write: File.WriteAt
	OpTruncate                       // truncate: File.Truncate
	OpSync                           // sync: File.Sync
	OpAllocate                       // allocate: File.Allocate
	OpMap                            // map: File.Map
	OpClose                          // close: File.Close
	OpMsync                          // msync: Mapping.Sync
	OpAdvise                         // advise: Mapping.Advise
	OpResident                       // resident: Mapping.Resident
	OpPin                            // pin: Mapping.Lock
	OpUnpin                          // unpin: Mapping.Unlock
	OpUnmap                          // unmap: Mapping.Unmap

	kindEnd
)

// Sets of kinds.
const (
	// OpAny is every operation.
	OpAny = kindEnd - 1
	// OpChange is every operation that changes files or names, or makes a change durable.
	OpChange = OpOpenReadWrite | OpCreate | OpRemove | OpRemoveAll | OpRename | OpMkdir | OpChtimes |
		OpSyncDir | OpWrite | OpTruncate | OpSync | OpAllocate | OpMsync
)

var kindNames = map[string]Kind{
	"open": OpOpen, "openrw": OpOpenReadWrite, "create": OpCreate,
	"remove": OpRemove, "removeall": OpRemoveAll, "rename": OpRename,
	"mkdir": OpMkdir, "list": OpList, "stat": OpStat, "chtimes": OpChtimes, "syncdir": OpSyncDir,
	"usage": OpUsage, "lock": OpLock, "unlock": OpUnlock,
	"read": OpRead, "write": OpWrite, "truncate": OpTruncate, "sync": OpSync, "allocate": OpAllocate,
	"map": OpMap, "close": OpClose,
	"msync": OpMsync, "advise": OpAdvise, "resident": OpResident,
	"pin": OpPin, "unpin": OpUnpin, "unmap": OpUnmap,
	"any": OpAny, "change": OpChange,
}

// String gives the name in expressions, several joined by "|".
func (k Kind) String() string {
	switch k {
	case OpAny:
		return "any"
	case OpChange:
		return "change"
	}
	var names []string
	for bit := Kind(1); bit < kindEnd; bit <<= 1 {
		if k&bit == 0 {
			continue
		}
		for name, kind := range kindNames {
			if kind == bit {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, "|")
}

// Op is one call that is about to be made.
type Op struct {
	Kind Kind // exactly one
	// Path is the file or directory; for a file and its mappings the name it was opened with.
	Path string
	// NewPath is the second name of a rename.
	NewPath string
	// Off and N are the range of read, write, allocate, map (from 0), truncate (Off is the new size) and of
	// the calls of a mapping.
	Off, N int64
}

// String shows the call in an error or a log.
func (op Op) String() string {
	switch {
	case op.NewPath != "":
		return fmt.Sprintf("%s %s %s", op.Kind, op.Path, op.NewPath)
	case op.Off != 0 || op.N != 0:
		return fmt.Sprintf("%s %s [%d,+%d)", op.Kind, op.Path, op.Off, op.N)
	default:
		return fmt.Sprintf("%s %s", op.Kind, op.Path)
	}
}

// Injector decides about calls. It is called from every goroutine that uses the FS, before the call is made
// and with no lock held, so it may block, look at the wrapped FS or clone it.
type Injector interface {
	// Inject returns nil to let the call pass, or the error it shall fail with. A *Partial says how much of
	// the call is done first.
	Inject(op Op) error
}

// Func is an Injector that is a function.
type Func func(op Op) error

// Inject calls the function.
func (f Func) Inject(op Op) error { return f(op) }

// Partial is an error of an Injector for a call that is done wholly or in part and then fails with Err.
// Callers of the FS see Err only.
type Partial struct {
	// Bytes is how much of a write is put down. All other calls are done wholly.
	Bytes int64
	Err   error
}

// Error is the text of Err.
func (p *Partial) Error() string { return p.Err.Error() }

// Unwrap returns Err.
func (p *Partial) Unwrap() error { return p.Err }
