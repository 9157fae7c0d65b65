// Package webhook knows how senders sign and shape their webhooks, one file
// each. All is the list; adding a sender is one file and one line there.
//
// Signatures are checked over the raw bytes, in constant time, against every
// secret of the webhook, and signed times both ways. What is not signed is never
// believed: without a secret every provider but "none" refuses.
package webhook
