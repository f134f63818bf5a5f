// Package update serves the requests that show and change the settings of a server that runs: those of the name server (Java
// DefaultRequestProcessor, 318 and 319) and of the controller (ControllerRequestProcessor, 1009 and 1010) are the same but
// for their codes.
//
// Deviations from Java: a key that nobody knows and a value of the wrong kind are INVALID_PARAMETER with the reason, and
// nothing is changed, where Java ignores them with success; paths, credentials and TLS keys cannot be changed; a change that
// cannot be saved is SYSTEM_ERROR.
package update
