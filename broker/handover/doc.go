// Package handover gives the role of master to another replica of the broker name, so that no message is lost and no send
// fails. Java has no such thing; there, mqadmin electMaster moves the role at once, and what the chosen replica lacks is cut
// from the old master's log.
//
//  1. a controller says who has everything that was confirmed; one of these, or the given one, is chosen
//  2. the replica copies the tables and comes near the end of the log; nothing is held up meanwhile
//  3. requests are held (package forward), puts are paused, the replica gets the rest and the newest offsets
//  4. the controllers elect it; this broker becomes a slave like any other
//  5. held and later requests are forwarded to it
//
// Until the controllers have answered, everything can be taken back: the held requests are served here. When their answer
// is lost, nobody knows who is master; this broker then asks for itself to be elected, which is decided after the first
// question, until it knows: puts stay paused.
package handover
