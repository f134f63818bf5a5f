// Package slave copies the tables of a master to its slave (Java SlaveSynchronize): topics, subscription groups, consumer
// offsets, delay offsets, request modes, and how far the timer is. The log itself goes another way, see package ha.
//
// Each step stands alone: what fails is tried again at the next round and does not hold up the others. A master of 4.x
// answers what 5.x added with "not supported", which is no failure.
package slave
