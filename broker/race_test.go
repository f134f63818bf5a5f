//go:build race

package broker

// raceEnabled shortens what the race detector makes slow.
const raceEnabled = true
