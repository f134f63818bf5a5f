package bench

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"sync"
)

// ErrBadLedger marks a file that is no ledger.
var ErrBadLedger = errors.New("bench: not a ledger")

const (
	ledgerMagic      = "SKYACK1\n"
	ledgerHeadBytes  = 16
	ledgerEntryBytes = 12
)

// Ledger is a file of the messages that a run's producers got acknowledged, for a check by another process or
// after a crash of the broker:
//
//	"SKYACK1\n" | run:8      then for each message      producer:4 | seq:8
//
// It is written every 100 ms and at the end; an entry cut off by the end of the process is passed over.
type Ledger struct {
	mu sync.Mutex
	f  *os.File
	w  *bufio.Writer // keeps the first error
}

// CreateLedger makes the file, or empties it.
func CreateLedger(path string, run uint64) (*Ledger, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("bench: ledger: %w", err)
	}
	l := &Ledger{f: f, w: bufio.NewWriterSize(f, 256<<10)}
	_, _ = l.w.Write(binary.BigEndian.AppendUint64([]byte(ledgerMagic), run)) // the writer keeps its error
	return l, nil
}

// Ack records a message.
func (l *Ledger) Ack(producer uint32, seq uint64) {
	var e [ledgerEntryBytes]byte
	binary.BigEndian.PutUint32(e[:], producer)
	binary.BigEndian.PutUint64(e[4:], seq)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.w.Write(e[:])
}

// Flush writes what was recorded. Its error, if it fails, is that of Close.
func (l *Ledger) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.w.Flush()
}

// Close writes the rest and closes the file.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(l.w.Flush(), l.f.Close()); err != nil {
		return fmt.Errorf("bench: ledger: %w", err)
	}
	return nil
}

// ReadLedger reads the file: the run and what was acknowledged.
func ReadLedger(path string) (*Acked, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("bench: ledger: %w", err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 256<<10)
	head := make([]byte, ledgerHeadBytes)
	if _, err := io.ReadFull(r, head); err != nil || string(head[:8]) != ledgerMagic {
		return nil, fmt.Errorf("%w: %s", ErrBadLedger, path)
	}
	a := &Acked{Run: binary.BigEndian.Uint64(head[8:]), sets: map[uint32]*bitmap{}}
	for e := head[:ledgerEntryBytes]; ; {
		if _, err := io.ReadFull(r, e); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return a, nil
		} else if err != nil {
			return nil, fmt.Errorf("bench: ledger: %w", err)
		}
		seq := binary.BigEndian.Uint64(e[4:])
		if seq >= maxSeq {
			return nil, fmt.Errorf("%w: %s: sequence number %d", ErrBadLedger, path, seq)
		}
		a.of(binary.BigEndian.Uint32(e)).set(seq)
	}
}

// Acked is the acknowledged messages of a run.
type Acked struct {
	Run  uint64
	sets map[uint32]*bitmap
}

func (a *Acked) of(producer uint32) *bitmap {
	b := a.sets[producer]
	if b == nil {
		b = &bitmap{}
		a.sets[producer] = b
	}
	return b
}

// Count is how many they are.
func (a *Acked) Count() (n int64) {
	for _, b := range a.sets {
		n += b.n
	}
	return n
}

// bitmap is a set of sequence numbers.
type bitmap struct {
	words []uint64
	n     int64
}

// set adds a number below maxSeq; false if it was there.
func (b *bitmap) set(seq uint64) bool {
	w, bit := seq/64, uint64(1)<<(seq%64)
	if w >= uint64(len(b.words)) {
		grown := make([]uint64, max(w+1, 2*uint64(len(b.words))))
		copy(grown, b.words)
		b.words = grown
	}
	if b.words[w]&bit != 0 {
		return false
	}
	b.words[w] |= bit
	b.n++
	return true
}

func (b *bitmap) word(i int) uint64 {
	if i < len(b.words) {
		return b.words[i]
	}
	return 0
}

// without calls f with the numbers of b that o does not have, until it is false.
func (b *bitmap) without(o *bitmap, f func(seq uint64) bool) {
	for i, w := range b.words {
		for w &^= o.word(i); w != 0; w &= w - 1 {
			if !f(uint64(i)*64 + uint64(bits.TrailingZeros64(w))) {
				return
			}
		}
	}
}

// covers tells whether b has all of o.
func (b *bitmap) covers(o *bitmap) bool {
	for i, w := range o.words {
		if w&^b.word(i) != 0 {
			return false
		}
	}
	return true
}
