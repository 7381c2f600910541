package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// entry is a file or folder of an initramfs.
type entry struct {
	name    string
	mode    uint32 // with the file type bits
	content []byte
}

const (
	modeFolder  = 0o040755
	modeProgram = 0o100755
	modeFile    = 0o100644
)

// writeCPIO writes the format newc of the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst.
func writeCPIO(out io.Writer, entries []entry) error {
	for number, e := range append(entries, entry{name: "TRAILER!!!"}) {
		header := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
			number+1, e.mode, 0, 0, 1, 0, len(e.content), 0, 0, 0, 0, len(e.name)+1, 0)
		text := header + e.name + "\x00"
		if _, err := io.WriteString(out, text+padding(len(text))); err != nil {
			return err
		}
		if _, err := out.Write(append(e.content, padding(len(e.content))...)); err != nil {
			return err
		}
	}
	return nil
}

func padding(length int) string { return strings.Repeat("\x00", (4-length%4)%4) }

// writeInitramfs writes the initramfs: guest as /init and the modules that
// it needs to reach the disks.
func writeInitramfs(path, modules string) error {
	program, err := os.ReadFile(filepath.Join(filepath.Dir(executable()), "guest"))
	if err != nil {
		return err
	}
	entries := []entry{
		// The kernel opens it as the standard streams of /init.
		{name: "dev", mode: modeFolder},
		{name: "init", mode: modeProgram, content: program},
		{name: "modules", mode: modeFolder},
	}
	paths, err := filepath.Glob(filepath.Join(modules, "*"))
	if err != nil {
		return err
	}
	sort.Strings(paths)
	for _, module := range paths {
		content, err := os.ReadFile(module)
		if err != nil {
			return err
		}
		entries = append(entries, entry{name: "modules/" + filepath.Base(module), mode: modeFile, content: content})
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return writeCPIO(file, entries)
}
