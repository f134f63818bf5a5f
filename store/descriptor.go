package store

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"skylark/internal/vfs"
)

// maxDescriptors bounds the files that stay open for sendfile, in the process. A broker that reads more files than this
// at once sends the rest from their mappings.
const maxDescriptors = 1024

// openDescriptors counts them.
var openDescriptors atomic.Int64

// descriptor is the open file behind a mapped file, for sendfile. It is opened when a long run is sent for the first time
// (some 2 µs), and closed with the mappings. A file without one, because it is in memory, deleted, or one too many, is
// not tried again.
type descriptor struct {
	// fd is the descriptor plus one; 0 = not tried, -1 = there is none.
	fd   atomic.Int64
	mu   sync.Mutex
	file vfs.File
}

// File implements zerocopy.FileOwner.
func (mf *mappedFile) File(b []byte) (fd int, off int64) {
	view := mf.data()
	off = int64(uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(view))))
	if off < 0 || off+int64(len(b)) > int64(len(view)) { // in an earlier view
		return -1, 0
	}
	return mf.desc.get(mf), off
}

// get is the descriptor of mf or -1; the caller holds a reference of mf.
func (d *descriptor) get(mf *mappedFile) int {
	if fd := d.fd.Load(); fd != 0 {
		return int(max(fd-1, -1))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if fd := d.fd.Load(); fd != 0 {
		return int(max(fd-1, -1))
	}
	d.fd.Store(-1)
	if openDescriptors.Add(1) > maxDescriptors {
		openDescriptors.Add(-1)
		return -1
	}
	f, err := mf.fs.Open(mf.path)
	if err == nil && f.Fd() >= 0 {
		d.file = f
		d.fd.Store(int64(f.Fd()) + 1)
		return f.Fd()
	}
	openDescriptors.Add(-1)
	if err == nil {
		_ = f.Close() // opened for reading: nothing can be lost
	}
	return -1
}

// close is called with the last reference.
func (d *descriptor) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fd.Store(-1)
	if d.file != nil {
		_ = d.file.Close()
		d.file = nil
		openDescriptors.Add(-1)
	}
}
