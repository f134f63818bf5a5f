package store

import (
	"log/slog"

	"skylark/internal/vfs"
)

// Zeros that are written ahead of a writer who is fast: see populateAhead.
const (
	// zeroPiece is one write of zeros, zeroStep what is written and faulted in together, while a writer who got there has to
	// wait.
	zeroPiece = 64 << 10
	zeroStep  = 256 << 10
	// defaultZeroRate is from when on, in bytes a second, zeros are written ahead.
	defaultZeroRate = 16 << 20
)

var zeroBytes [zeroPiece]byte

// zeroAhead writes zeros to the next zeroStep bytes before end and faults them in. false: there are none, or zeros are not
// written to this file.
func (mf *mappedFile) zeroAhead(end int64, log *slog.Logger) bool {
	mf.aheadMu.Lock()
	defer mf.aheadMu.Unlock()
	from := mf.populated.Load()
	if mf.zeros == nil || from >= end {
		return false
	}
	if wrote := mf.wrotePosition.Load(); from < wrote {
		if wrote < mf.size { // else it is full, and what follows the last record is nobody's
			log.Error("BUG: the writer is in pages that it has not claimed", "file", mf.path, "position", from)
		}
		mf.endZeros()
		return false
	}
	to := min(end, (from/zeroStep+1)*zeroStep)
	for at := from; at < to; {
		n := min(to, (at/zeroPiece+1)*zeroPiece) - at
		if _, err := mf.zeros.WriteAt(zeroBytes[:n], at); err != nil {
			log.Warn("zeros not written ahead", "file", mf.path, "position", at, "err", err)
			mf.endZeros()
			return false
		}
		at += n
	}
	mf.fault(from, to-from, log)
	mf.populated.Store(to)
	return true
}

// claim makes everything before end the writer's: no zeros are written there any more. Whoever writes behind populated, to
// the mapping or to the file, calls it before.
func (mf *mappedFile) claim(end int64) {
	if end <= mf.populated.Load() {
		return
	}
	mf.aheadMu.Lock()
	defer mf.aheadMu.Unlock()
	if mf.populated.Load() < end {
		mf.populated.Store(end)
	}
}

// startZeros lets zeros be written ahead of the writer, if that is of use. It is called while the path is sure to lead to
// the file: one that is cut gets a successor of the same name.
func (mf *mappedFile) startZeros(o *Options) {
	if mf.buffered || o.FlushDiskType == SyncFlush || o.WarmMapedFileEnable {
		return
	}
	out, err := mf.fs.OpenReadWrite(mf.path)
	if err != nil {
		o.Log.Warn("zeros are not written ahead", "file", mf.path, "err", err)
		return
	}
	mf.aheadMu.Lock()
	defer mf.aheadMu.Unlock()
	mf.zeros = out
	// What read-ahead had brought in once would be read ahead of for ever.
	mf.adviseReads(mf.populated.Load(), vfs.AdviseRandom)
}

// adviseReads tells how much a fault in the mapping reads, from a position on.
func (mf *mappedFile) adviseReads(from int64, a vfs.Advice) {
	v := mf.view.Load()
	if n := int64(len(v.bytes)) - from; n > 0 {
		_ = v.mapping.Advise(from, n, a) // a hint
	}
}

// stopZeros ends it. The caller holds a reference.
func (mf *mappedFile) stopZeros() {
	mf.aheadMu.Lock()
	defer mf.aheadMu.Unlock()
	if mf.zeros != nil {
		mf.endZeros()
	}
}

// endZeros is stopZeros with aheadMu held.
func (mf *mappedFile) endZeros() {
	mf.closeZeros()
	mf.adviseReads(0, vfs.AdviseNormal)
}

// writesZeros tells that the file still grows and has no read-ahead for that.
func (mf *mappedFile) writesZeros() bool {
	mf.aheadMu.Lock()
	defer mf.aheadMu.Unlock()
	return mf.zeros != nil
}

// closeZeros is called with aheadMu.
func (mf *mappedFile) closeZeros() {
	if mf.zeros != nil {
		_ = mf.zeros.Close() // nothing that was written to it counts
		mf.zeros = nil
	}
}
