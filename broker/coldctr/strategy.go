package coldctr

// strategy decides in a Step whether thresholds grow or shrink; the Control's lock is held.
type strategy interface {
	// collect is told how many cold bytes all groups have read.
	collect(global int64)
	// promotes: groups that were limited get half as much again.
	promotes() bool
	// slows: the highest thresholds lose a fifth.
	slows() bool
}

// simple is Java's SimpleColdCtrStrategy.
type simple struct{ c *Control }

func (simple) collect(int64)  {}
func (simple) promotes() bool { return true }
func (s simple) slows() bool  { return s.c.overGlobal() }

// Weights of the difference, of its sum and of its change, and how many differences are summed.
const (
	pidProportional = 0.5
	pidIntegral     = 0.3
	pidDerivative   = 0.2
	pidHistory      = 10
)

// pid is Java's PIDAdaptiveColdCtrStrategy: it steers the sum of all groups towards 80 % of globalColdReadThreshold as it
// was at the start, and does nothing until it has seen ten intervals.
type pid struct {
	c        *Control
	expected int64
	history  []int64
}

func (p *pid) collect(global int64) {
	p.history = append(p.history, p.expected-global)
	if n := len(p.history); n > pidHistory {
		p.history = append(p.history[:0], p.history[n-pidHistory:]...)
	}
}

func (p *pid) factor() float64 {
	n := len(p.history)
	if n < pidHistory {
		return 0
	}
	sum := 0.0
	for _, v := range p.history {
		sum += float64(v)
	}
	last, before := float64(p.history[n-1]), float64(p.history[n-2])
	return pidProportional*last + pidIntegral*sum + pidDerivative*(last-before)
}

func (p *pid) promotes() bool { return p.factor() > 0 }
func (p *pid) slows() bool    { return p.factor() < 0 }
