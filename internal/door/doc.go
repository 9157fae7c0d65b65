// Package door is the HTTP entrance of a service: authentication and roles,
// problem documents, limits, request ids, the OpenAPI description and streams.
//
// Every route declares the role it needs when it is registered; a route
// without one does not start. Handlers return errors, the door turns them into
// RFC 9457 problems with a stable code and logs what the caller is not told.
//
// What a browser sends by itself, a cookie, counts for a request that changes
// something only when its headers say that a page of this address sent it.
package door
