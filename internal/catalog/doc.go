// Package catalog reads the definitions that operators applied, for every
// service, through the views catalog.v_current and catalog.v_versions. It never
// writes.
//
// What a name means now is read anew each time. A version is immutable and
// kept in memory, bounded, once its body was seen to have its digest: a process
// that runs what a run pinned needs the database only for what it has not seen.
package catalog
