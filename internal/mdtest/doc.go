// Package mdtest reads the project's Markdown for its tests: blocks of code with
// what is said about running them, headings and links.
package mdtest
