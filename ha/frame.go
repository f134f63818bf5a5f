package ha

import (
	"encoding/binary"
	"fmt"

	"skylark/store"
)

// Sizes of the classic frames.
const (
	reportBytes = 8  // slave → master (Java DefaultHAClient.REPORT_HEADER_SIZE)
	headerBytes = 12 // master → slave (Java DefaultHAConnection.TRANSFER_HEADER_SIZE)
	// maxBodyBytes is the longest body: Java's slave reads a frame into a buffer of 4 MiB.
	maxBodyBytes = 4<<20 - headerBytes
)

// header is the head of a frame of the master; size 0 is a heartbeat.
type header struct {
	phyOffset store.PhyOffset
	size      int
}

func appendHeader(b []byte, h header) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(h.phyOffset))
	return binary.BigEndian.AppendUint32(b, uint32(h.size))
}

// parseHeader reads headerBytes of b. Java limits bodies to its buffer; a master with a larger one is none of ours.
func parseHeader(b []byte) (header, error) {
	h := header{store.PhyOffset(binary.BigEndian.Uint64(b)), int(int32(binary.BigEndian.Uint32(b[8:])))}
	if h.phyOffset < 0 || h.size < 0 || h.size > maxBodyBytes {
		return h, fmt.Errorf("ha: frame of %d bytes at %d: the peer is no master of this protocol", h.size, h.phyOffset)
	}
	return h, nil
}

// reports gathers the 8 bytes of reports, which may come in pieces.
type reports struct {
	part [reportBytes]byte
	n    int
}

// last takes bytes and gives the last whole report among them (Java counts no other).
func (r *reports) last(b []byte) (offset store.PhyOffset, ok bool) {
	whole := (r.n + len(b)) / reportBytes * reportBytes // bytes up to the end of the last one
	if whole > 0 {
		at := whole - reportBytes - r.n // of its start in b
		if at < 0 {
			copy(r.part[r.n:], b[:reportBytes-r.n])
			offset = store.PhyOffset(binary.BigEndian.Uint64(r.part[:]))
		} else {
			offset = store.PhyOffset(binary.BigEndian.Uint64(b[at:]))
		}
		b = b[whole-r.n:]
		r.n = 0
		ok = true
	}
	r.n += copy(r.part[r.n:], b)
	return offset, ok
}
