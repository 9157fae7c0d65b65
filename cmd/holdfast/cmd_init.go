package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"
)

// InitCmd writes a first project.
type InitCmd struct {
	Dir string `arg:"" optional:"" default:"." help:"Folder to write to (${default}). It is made when it is not there."`
}

// Help implements kong.HelpProvider.
func (*InitCmd) Help() string {
	return `An agent, a tool that reads, one that writes and waits for an approval, a model, a
webhook, a schedule, and a README with the next commands. Nothing that is there
is overwritten.

  holdfast init page-watch
  cd page-watch && holdfast validate -f .

Exit codes: 0 done, 1 failed, 2 wrong usage, 5 a file is there already.`
}

// project holds the files that init writes.
//
//go:embed project
var project embed.FS

// Run implements the command.
func (c *InitCmd) Run(k *kong.Context) error {
	files, err := fs.Sub(project, "project")
	if err != nil {
		return err
	}
	names, err := fs.Glob(files, "*")
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(c.Dir, name)
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			if err == nil {
				err = fmt.Errorf("%s is there already; nothing was written; choose another folder: holdfast init DIR", path)
			}
			return &exitError{exitConflict, err}
		}
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		path := filepath.Join(c.Dir, name)
		if err := writeNew(path, text); err != nil {
			return err
		}
		fmt.Fprintln(k.Stdout, path)
	}
	enter := ""
	if filepath.Clean(c.Dir) != "." {
		enter = "cd " + quote(c.Dir) + " && "
	}
	_, err = fmt.Fprintf(k.Stdout, "\nnext: %sholdfast validate -f . (README.md goes on from there)\n", enter)
	return err
}

// writeNew writes a file that must not be there.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}
