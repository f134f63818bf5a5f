package ha

// flowBudget bounds the bytes of a second (Java FlowMonitor, haFlowControlEnable) and counts them for GET_BROKER_HA_STATUS.
// What is over in one second is not carried on. Times are ms.
type flowBudget struct {
	second int64
	used   int64
	last   int64 // bytes of the second before
}

func (f *flowBudget) turn(nowMillis int64) {
	second := nowMillis / 1000
	if second == f.second {
		return
	}
	f.last = f.used
	if second != f.second+1 {
		f.last = 0
	}
	f.second, f.used = second, 0
}

// left is how many of limit bytes may still go this second.
func (f *flowBudget) left(nowMillis, limit int64) int64 {
	f.turn(nowMillis)
	return max(limit-f.used, 0)
}

// count notes bytes that went.
func (f *flowBudget) count(nowMillis int64, n int) {
	f.turn(nowMillis)
	f.used += int64(n)
}

// perSecond is the rate of the last whole second.
func (f *flowBudget) perSecond(nowMillis int64) int64 {
	f.turn(nowMillis)
	return f.last
}
