package body

import "cmp"

// DataVersion orders the states of a broker's tables (Java DataVersion). 4.9 has no StateVersion.
type DataVersion struct {
	Counter      int64 `json:"counter"`
	StateVersion int64 `json:"stateVersion"` // epoch of the master in controller mode, else 0
	Timestamp    int64 `json:"timestamp"`    // milliseconds
}

// Compare is -1, 0 or +1: by StateVersion, then Counter, then Timestamp.
func (v DataVersion) Compare(other DataVersion) int {
	return cmp.Or(cmp.Compare(v.StateVersion, other.StateVersion), cmp.Compare(v.Counter, other.Counter),
		cmp.Compare(v.Timestamp, other.Timestamp))
}

// Next is the version after a change at nowMillis (Java nextVersion).
func (v DataVersion) Next(nowMillis, stateVersion int64) DataVersion {
	return DataVersion{Counter: v.Counter + 1, StateVersion: stateVersion, Timestamp: nowMillis}
}
