// Package toolfile writes Tool documents for what other programs offer: the
// operations of an OpenAPI description, the tools of an MCP server, the
// endpoints of NATS micro services.
//
// What it writes is text for a person to read, keep and apply. It reaches out to
// nobody, and everything that it is given is somebody else's word: text from
// outside becomes quoted text and nothing else.
package toolfile
