// Package reply brings answers of request-reply to whoever asked (Java ReplyMessageProcessor, spec features.md 13).
//
// A requester sends an ordinary message with the properties REPLY_TO_CLIENT (its client id), CORRELATION_ID and TTL. Who
// consumes it sends the answer as SEND_REPLY_MESSAGE to the reply topic of the requester's cluster, and the broker
// pushes it on the requester's own connection (326, [Pusher]). The reply topic is only a record: nobody consumes it.
//
// # Who is the requester
//
// Java knows a requester by its heartbeats as a producer. A client that has only just started has sent none, and its
// first replies fail there. So a connection on which a request came in is remembered too ([Requesters]), and asked when
// no producer with the client id is known.
package reply
