// Package accept binds listeners and accepts from them. It survives what ends other acceptors: when the
// process or the machine is out of file descriptors, it waits, 5 ms doubling to a second, and meanwhile takes
// waiting peers out of the queue with a descriptor kept in reserve and closes them, so that they learn at
// once that there is no place.
package accept
