// Package events is the wire contract of Holdfast: the envelope, the subjects,
// the streams and the bodies that services exchange. Services never import each
// other; they meet here.
//
// It imports only the standard library and promises compatibility: a released
// body is never edited, a new meaning is a new type version.
package events
