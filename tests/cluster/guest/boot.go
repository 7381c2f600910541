package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"llama-operator.dev/testcluster/internal/machine"
)

// boot puts the root together from the three disks and ends with it as /, with
// nothing of the initramfs in reach. The disk root is read-only and shared
// between boots; all writes go to scratch.
func boot() error {
	for _, directory := range []string{"/dev", "/proc", "/sys", "/lower", machine.ConfigDisk, machine.DataDisk, "/new"} {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return err
		}
	}
	if err := mount("sys", "/sys", "sysfs", 0, ""); err != nil {
		return err
	}
	if err := mount("dev", "/dev", "devtmpfs", 0, ""); err != nil && err != syscall.EBUSY {
		return err
	}
	if err := loadModules("/modules"); err != nil {
		return err
	}
	disks, err := findDisks(machine.DiskSerials.Root, machine.DiskSerials.Config, machine.DiskSerials.Scratch)
	if err != nil {
		return err
	}
	steps := []func() error{
		func() error { return mount(disks[machine.DiskSerials.Root], "/lower", "ext4", syscall.MS_RDONLY, "") },
		func() error {
			return mount(disks[machine.DiskSerials.Config], machine.ConfigDisk, "ext4", syscall.MS_RDONLY, "")
		},
		func() error { return mount(disks[machine.DiskSerials.Scratch], machine.DataDisk, "ext4", 0, "") },
		func() error { return os.MkdirAll(machine.DataDisk+"/upper", 0o755) },
		func() error { return os.MkdirAll(machine.DataDisk+"/work", 0o755) },
		func() error {
			return mount("root", "/new", "overlay", 0, "lowerdir=/lower,upperdir="+machine.DataDisk+"/upper,workdir="+machine.DataDisk+"/work")
		},
		func() error { return move(machine.ConfigDisk, "/new"+machine.ConfigDisk) },
		func() error { return move(machine.DataDisk, "/new"+machine.DataDisk) },
		func() error { return move("/dev", "/new/dev") },
		func() error { return move("/sys", "/new/sys") },
		func() error { return os.Chdir("/new") },
		func() error { return syscall.Mount(".", "/", "", syscall.MS_MOVE, "") },
		func() error { return syscall.Chroot(".") },
		func() error { return os.Chdir("/") },
		func() error { return mount("proc", "/proc", "proc", 0, "") },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func mount(source, target, kind string, flags uintptr, options string) error {
	if err := syscall.Mount(source, target, kind, flags, options); err != nil {
		if err == syscall.EBUSY {
			return err
		}
		return fmt.Errorf("cannot mount %s on %s: %w", source, target, err)
	}
	return nil
}

func move(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	return mount(from, to, "", syscall.MS_MOVE, "")
}

// loadModules loads every module of a folder, in the order of their names.
func loadModules(directory string) error {
	paths, err := filepath.Glob(directory + "/*")
	if err != nil {
		return err
	}
	sort.Strings(paths)
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		flags := 0
		if !strings.HasSuffix(path, ".ko") {
			flags = 4 // MODULE_INIT_COMPRESSED_FILE
		}
		empty := []byte{0}
		_, _, code := syscall.Syscall(finitModule, file.Fd(), uintptr(unsafe.Pointer(&empty[0])), uintptr(flags))
		file.Close()
		if code != 0 && code != syscall.EEXIST {
			return fmt.Errorf("cannot load the module %s: %w", path, code)
		}
	}
	return nil
}

const finitModule = 313 // SYS_finit_module on x86-64

// findDisks waits for the disks with these serials and returns their devices.
func findDisks(serials ...string) (map[string]string, error) {
	found := map[string]string{}
	for range 600 {
		entries, _ := filepath.Glob("/sys/block/vd*")
		for _, entry := range entries {
			serial, _ := os.ReadFile(entry + "/serial")
			device := "/dev/" + filepath.Base(entry)
			if _, err := os.Stat(device); err == nil {
				found[strings.TrimSpace(string(serial))] = device
			}
		}
		missing := false
		for _, serial := range serials {
			missing = missing || found[serial] == ""
		}
		if !missing {
			return found, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, fmt.Errorf("of the disks %v only %v appeared in a minute", serials, found)
}
