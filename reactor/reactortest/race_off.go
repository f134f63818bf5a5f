//go:build !race

package reactortest

const raceEnabled = false
