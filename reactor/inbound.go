package reactor

import "skylark/codec"

// Inbound cuts the byte stream of one connection into frames. Frames that lie within one read alias it; only
// what is incomplete is copied, into a pooled buffer that doubles as bytes arrive and never much beyond what
// the frame calls for. The cost of a frame is thus linear in its length, however small the reads are, and a
// peer that announces 16 MiB and sends ten bytes costs 512 bytes.
//
// One turn is
//
//	for more := true; more; {
//		frames, p, err = in.Split(p, frames[:0])
//		… serve frames …
//		more = len(frames) > 0 && err == nil
//	}
//	in.Keep(p)
//
// A paused connection is not split: all of p goes to Keep. It is used by one goroutine at a time.
type Inbound struct {
	max  int
	held *chunk // bytes not served yet are held.b[at:]
	at   int
	need int // length of the frame that begins at held.b[at:], as far as known; 0 = not looked at
}

// Init sets the frame limit.
func (in *Inbound) Init(maxFrameBytes int) { in.max = maxFrameBytes }

// Buffered is the number of bytes held back.
func (in *Inbound) Buffered() int {
	if in.held == nil {
		return 0
	}
	return len(in.held.b) - in.at
}

// Split appends complete frames to dst until it holds MaxBatchFrames: first those of the held bytes, then
// those of p. rest is what of p was not used. No frame returned means that all the rest is incomplete. Frames
// are valid until the next call of a method of in, and no longer than p. Frames before a malformed one are
// returned with its error.
func (in *Inbound) Split(p []byte, dst []codec.Frame) (frames []codec.Frame, rest []byte, err error) {
	if in.held != nil {
		var done bool
		if dst, p, done, err = in.splitHeld(p, dst); done || err != nil {
			return dst, p, err
		}
	}
	for len(dst) < MaxBatchFrames && len(p) > 0 {
		f, n, _, err := codec.SplitFrame(p, in.max)
		if err != nil || n == 0 {
			return dst, p, err
		}
		dst = append(dst, f)
		p = p[n:]
	}
	return dst, p, nil
}

// splitHeld serves the held bytes; not done means that they are used up (and may still be aliased by dst).
func (in *Inbound) splitHeld(p []byte, dst []codec.Frame) (
	_ []codec.Frame, rest []byte, done bool, err error) {
	if in.Buffered() == 0 {
		in.Release()
		return dst, p, false, nil
	}
	for in.Buffered() > 0 {
		if len(dst) == MaxBatchFrames {
			return dst, p, true, nil
		}
		f, n, need, err := codec.SplitFrame(in.held.b[in.at:], in.max)
		if err != nil {
			return dst, p, true, err
		}
		if n > 0 {
			dst = append(dst, f)
			in.at += n
			in.need = 0
			continue
		}
		in.need = need
		if len(dst) > 0 || len(p) == 0 {
			return dst, p, true, nil // the buffer may move only while no frame aliases it
		}
		n = min(need-in.Buffered(), len(p))
		in.append(p[:n])
		p = p[n:]
	}
	return dst, p, false, nil
}

// Keep holds p back until the next turn: the incomplete end of a read, or all that came while paused.
func (in *Inbound) Keep(p []byte) {
	if in.held != nil && in.Buffered() == 0 {
		in.Release()
	}
	if len(p) == 0 {
		return
	}
	in.append(p)
}

// append adds p to the held bytes and keeps the buffer within twice of what it holds.
func (in *Inbound) append(p []byte) {
	have := in.Buffered()
	total := have + len(p)
	if in.held == nil {
		in.held = newChunk(total)
	} else if cap(in.held.b)-len(in.held.b) < len(p) {
		if total <= cap(in.held.b) && in.at >= have {
			copy(in.held.b, in.held.b[in.at:])
			in.held.b = in.held.b[:have]
		} else {
			want := max(total, 2*have)
			if in.need > 0 {
				want = max(total, min(want, in.need))
			}
			c := newChunk(want)
			c.b = append(c.b, in.held.b[in.at:]...)
			in.held.free()
			in.held = c
		}
		in.at = 0
	}
	in.held.b = append(in.held.b, p...)
}

// Release gives the buffer back and forgets what it holds.
func (in *Inbound) Release() {
	if in.held != nil {
		in.held.free()
	}
	in.held, in.at, in.need = nil, 0, 0
}
