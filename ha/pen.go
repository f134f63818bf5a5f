package ha

import (
	"fmt"
	"net"
	"syscall"

	"skylark/zerocopy"
)

// maxFrames are the frames of one turn.
const maxFrames = 48

// pen writes frames to a socket: heads from a small array, bodies from where they lie.
type pen struct {
	conn  net.Conn
	raw   syscall.RawConn // nil until the first write, and for connections without a descriptor
	heads [maxFrames * switchHeaderBytes]byte
	used  int // of heads
	parts []part
	batch zerocopy.Batch
}

// part is a head, or a piece of the log with its reference.
type part struct {
	bytes []byte
	owner zerocopy.Owner
}

func (p *pen) room() bool { return p.used+switchHeaderBytes <= len(p.heads) }

func (p *pen) head(h header) { p.wrote(appendHeader(p.space(), h)) }

// space is where the next head goes, and wrote takes it from there.
func (p *pen) space() []byte { return p.heads[p.used:p.used] }

func (p *pen) wrote(head []byte) {
	p.used += len(head)
	p.parts = append(p.parts, part{bytes: head})
}

func (p *pen) body(seg zerocopy.Segment) {
	p.parts = append(p.parts, part{bytes: seg.Bytes, owner: seg.Owner})
}

// reset gives the references back.
func (p *pen) reset() {
	for i := range p.parts {
		if o := p.parts[i].owner; o != nil {
			o.Release()
		}
	}
	clear(p.parts)
	p.parts, p.used = p.parts[:0], 0
	p.batch.Reset()
}

// write sends all parts; it waits while the socket is full.
func (p *pen) write() error {
	if p.raw == nil {
		sc, ok := p.conn.(syscall.Conn)
		if !ok {
			return p.copyOut()
		}
		raw, err := sc.SyscallConn()
		if err != nil {
			return fmt.Errorf("ha: %w", err)
		}
		p.raw = raw
	}
	at := 0 // bytes of all parts that are out
	var failed error
	err := p.raw.Write(func(fd uintptr) bool {
		for {
			more := p.fill(at)
			n, err := p.batch.Write(int(fd))
			size := p.batch.Size()
			at += n
			switch {
			case err != nil:
				failed = err
				return true
			case n < size:
				return false // full; called again when it is not
			case !more:
				return true
			}
		}
	})
	if failed != nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("ha: write to the slave: %w", err)
	}
	return nil
}

// fill makes the batch of what lies behind the first skip bytes; more: it does not hold all of it.
func (p *pen) fill(skip int) (more bool) {
	p.batch.Reset()
	for i := range p.parts {
		b := p.parts[i].bytes
		if skip >= len(b) {
			skip -= len(b)
			continue
		}
		if !p.batch.Add(b[skip:], p.parts[i].owner) {
			return true
		}
		skip = 0
	}
	return false
}

// copyOut is write for connections in memory.
func (p *pen) copyOut() error {
	for i := range p.parts {
		if _, err := p.conn.Write(p.parts[i].bytes); err != nil {
			return fmt.Errorf("ha: write to the slave: %w", err)
		}
	}
	return nil
}
