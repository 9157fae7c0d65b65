// Package egress makes every outgoing request of every service.
//
// It connects to public addresses only, unless a range is allowed. The check is
// made on the address that is dialled, after DNS and at each redirect, so a
// name that resolves to an inner address does not get through. Responses are
// bounded in size and time.
//
// A request that is not a read is sent once: never over a connection that was
// used before, never redirected and never repeated by the HTTP library. Errors
// say whether the request may have left this machine.
//
// It keeps no secrets and knows no policy.
package egress
