//go:build !race

package namesrv

const raceEnabled = false
