// Package forward keeps clients served at the address of a broker whose role moves to another one. Java has nothing like
// it: there, what reaches the old master is refused, and clients look for the new one every 30 s.
//
//	off         nothing is taken; one atomic load for each request
//	holding     requests that only a master serves are kept, in order
//	settling    who is the next master is known, and is asked until it serves
//	forwarding  what was kept, and then what comes, goes to it; answers come back as they are
//
// No request is kept longer than Options.MaxHold: it is answered SYSTEM_BUSY then, on which clients try again. Forwarding
// ends after the time it was given; clients have found the new address in their routes by then. Should the role come back
// earlier, it ends at once.
//
// What a client has asked one after the other over one connection is forwarded in that order, over one connection. The new
// master takes this broker's address for the sender's (the born host of messages).
package forward
