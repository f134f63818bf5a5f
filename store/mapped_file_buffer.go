package store

import (
	"errors"
	"fmt"
)

// commitPieceBytes is the most one write of a commit takes: large enough that the system call does not count (measured:
// 0.26 µs for each record of 1.2 KiB in writes of 64 KiB, 0.15 in 1 MiB), and readers follow piece by piece.
const commitPieceBytes = 1 << 20

// errFileGone answers an operation on a file that lost its last reference.
var errFileGone = errors.New("store: mapped file is gone")

// useBuffer makes the writer copy into b from now on; pool gets b back when everything is in the file. The file is new:
// nothing is written yet.
func (mf *mappedFile) useBuffer(b *writeBuffer, pool *transientStorePool) error {
	out, err := mf.fs.OpenReadWrite(mf.path)
	if err != nil {
		return fmt.Errorf("store: open %s: %w", mf.path, err)
	}
	mf.buffered, mf.pool, mf.out = true, pool, out
	mf.buffer.Store(b)
	mf.populated.Store(b.populated)
	return nil
}

// writable is where the writer copies records to; the owner of the write position calls it.
func (mf *mappedFile) writable() []byte {
	if b := mf.buffer.Load(); b != nil {
		return b.memory.Bytes()
	}
	return mf.data()
}

// readPosition is the end of what readers find in the mapping (Java getReadPosition): what was committed of a file with a
// write buffer, what was written of any other.
func (mf *mappedFile) readPosition() int64 {
	if mf.buffered {
		return mf.committedPosition.Load()
	}
	return mf.wrotePosition.Load()
}

// committed tells that nothing of the file is in a write buffer only, now or later.
func (mf *mappedFile) committed() bool { return !mf.buffered || mf.committedPosition.Load() == mf.size }

// readTimestamp is the store time of a record before readPosition, ms; load it first.
func (mf *mappedFile) readTimestamp() int64 {
	if mf.buffered {
		return mf.committedTimestamp.Load()
	}
	return mf.storeTimestamp.Load()
}

// fill ends the file at pos: the rest counts as written, and nothing of it is.
func (mf *mappedFile) fill(contentEnd int64) {
	mf.contentEnd = contentEnd // published by wrotePosition
	mf.wrotePosition.Store(mf.size)
}

// commit writes what the buffer has to the file. When the file is full its buffer goes back. One committer at a time; it
// holds a reference.
func (mf *mappedFile) commit() error {
	timestamp := mf.storeTimestamp.Load()
	wrote := mf.wrotePosition.Load()
	pos := mf.committedPosition.Load()
	if pos == wrote {
		return nil
	}
	end := wrote
	if wrote == mf.size {
		end = mf.contentEnd // behind it the buffer has what an earlier file left there, the file has zeros
	}
	data := mf.buffer.Load().memory.Bytes()
	for pos < end {
		n := min(end-pos, commitPieceBytes)
		if _, err := mf.out.WriteAt(data[pos:pos+n], pos); err != nil {
			return fmt.Errorf("store: commit %s [%d,+%d): %w", mf.path, pos, n, err)
		}
		pos += n
		mf.committedPosition.Store(pos)
	}
	mf.committedTimestamp.Store(timestamp)
	mf.committedPosition.Store(wrote)
	if wrote == mf.size {
		return mf.dropBuffer()
	}
	return nil
}

// dropBuffer gives the buffer back. Nobody writes to the file any more.
func (mf *mappedFile) dropBuffer() error {
	b := mf.buffer.Swap(nil)
	if b == nil {
		return nil
	}
	b.populated = max(b.populated, mf.populated.Load())
	mf.pool.giveBack(b)
	out := mf.out
	mf.out = nil
	if err := out.Close(); err != nil {
		return fmt.Errorf("store: close %s: %w", mf.path, err)
	}
	return nil
}
