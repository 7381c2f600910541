package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"llama-operator.dev/testcluster/internal/host"
)

// The packages of the virtual machine's root, besides Debian's minimal set.
var guestPackages = []string{"containerd", "runc", "containernetworking-plugins", "iptables", "conntrack",
	"kmod", "iproute2", "procps", "numactl"}

// The modules that the initramfs needs to reach its disks.
var bootModules = []string{"virtio_pci", "virtio_blk", "overlay"}

// machineID is the machine's /etc/machine-id, which the kubelet reports.
const machineID = "6e756d612d6e6f646500000000000001\n"

// rootDiskFormat is part of the cache's key: raise it when the steps below change.
const rootDiskFormat = "1"

// rootDisk is the part of the virtual machine that does not depend on the
// cluster: a folder with root.img, vmlinuz and modules/.
func (s *State) rootDisk() (string, error) {
	suite, mirror, err := debianSource()
	if err != nil {
		return "", err
	}
	kernel, err := kernelPackage()
	if err != nil {
		return "", err
	}
	cache, err := cacheDirectory()
	if err != nil {
		return "", err
	}
	inputs := append([]string{rootDiskFormat, suite, kernel}, append(guestPackages, bootModules...)...)
	key := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(inputs, "\n"))))[:16]
	final := filepath.Join(cache, "numa-node", key)
	if _, err := os.Stat(filepath.Join(final, "root.img")); err == nil {
		return final, nil
	}
	began := time.Now()
	report(numaNode, "making its root disk from Debian %s and %s, usually 2 min, once", suite, kernel)
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(filepath.Dir(final), "making-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := s.makeRootDisk(work, suite, mirror, kernel); err != nil {
		return "", err
	}
	if err := os.Rename(work, final); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	report(numaNode, "root disk made in %s", since(began))
	return final, nil
}

func (s *State) makeRootDisk(work, suite, mirror, kernel string) error {
	root, unpacked := filepath.Join(work, "root"), filepath.Join(work, "kernel")
	log, err := os.OpenFile(s.logPath("debootstrap"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	// In memory: dpkg waits for the disk after each file that it unpacks.
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("root", root, "tmpfs", 0, "mode=755,size=2G"); err != nil {
		return err
	}
	defer syscall.Unmount(root, syscall.MNT_DETACH)
	debootstrap := exec.Command("debootstrap", "--variant=minbase", "--include="+strings.Join(guestPackages, ","), suite, root, mirror)
	debootstrap.Stdout, debootstrap.Stderr = log, log
	if err := debootstrap.Run(); err != nil {
		return fmt.Errorf("the end of %s:\n%s\ndebootstrap failed, see above", log.Name(), tail(log.Name(), 10))
	}
	// The kernel is unpacked, not installed: its hooks would build an initramfs of 30 MB.
	if err := os.Mkdir(unpacked, 0o755); err != nil {
		return err
	}
	download := exec.Command("apt-get", "download", "-q", kernel)
	download.Dir = unpacked
	if err := host.Quietly(download); err != nil {
		return err
	}
	debs, _ := filepath.Glob(filepath.Join(unpacked, "*.deb"))
	if len(debs) != 1 {
		return fmt.Errorf("apt-get download %s gave %d files instead of one", kernel, len(debs))
	}
	if err := host.RunAll("dpkg-deb -x "+debs[0]+" "+unpacked, "cp -a "+unpacked+"/lib/modules "+root+"/usr/lib/"); err != nil {
		return err
	}
	version := strings.TrimPrefix(kernel, "linux-image-")
	if err := host.Quietly(exec.Command("chroot", root, "/sbin/depmod", version)); err != nil {
		return err
	}
	if err := copyBootModules(filepath.Join(root, "usr/lib/modules", version), filepath.Join(work, "modules")); err != nil {
		return err
	}
	for _, path := range []string{"usr/share/doc", "usr/share/locale", "usr/share/man", "var/cache/apt", "var/lib/apt/lists"} {
		if err := os.RemoveAll(filepath.Join(root, path)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(root, "etc/machine-id"), []byte(machineID), 0o444); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(unpacked, "boot", "vmlinuz-"+version), filepath.Join(work, "vmlinuz")); err != nil {
		return err
	}
	if err := makeDisk(filepath.Join(work, "root.img"), root); err != nil {
		return err
	}
	if err := syscall.Unmount(root, syscall.MNT_DETACH); err != nil {
		return err
	}
	if err := os.Remove(root); err != nil {
		return err
	}
	return os.RemoveAll(unpacked)
}

// copyBootModules puts the modules of the initramfs into a folder, with names
// in the order in which they must be loaded.
func copyBootModules(modules, to string) error {
	text, err := os.ReadFile(filepath.Join(modules, "modules.dep"))
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	for number, path := range loadOrder(string(text), bootModules) {
		content, err := os.ReadFile(filepath.Join(modules, path))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, fmt.Sprintf("%02d-%s", number, filepath.Base(path))), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// loadOrder lists the files of modules and of all they depend on, each after
// its dependencies. modules.dep lists those of a module last to load first. A
// module that is not there is built into the kernel.
func loadOrder(modulesDep string, names []string) []string {
	dependencies, paths := map[string][]string{}, map[string]string{}
	for _, line := range strings.Split(modulesDep, "\n") {
		path, needs, ok := strings.Cut(line, ":")
		if ok {
			dependencies[path] = strings.Fields(needs)
			name, _, _ := strings.Cut(filepath.Base(path), ".")
			paths[strings.ReplaceAll(name, "-", "_")] = path
		}
	}
	var order []string
	seen := map[string]bool{}
	add := func(path string) {
		if path != "" && !seen[path] {
			seen[path] = true
			order = append(order, path)
		}
	}
	for _, name := range names {
		path := paths[name]
		needs := dependencies[path]
		for i := len(needs) - 1; i >= 0; i-- {
			add(needs[i])
		}
		add(path)
	}
	return order
}

// makeDisk makes an ext4 image of a folder, with little room to spare.
func makeDisk(image, folder string) error {
	output, err := exec.Command("du", "-s", "-m", folder).Output()
	if err != nil {
		return err
	}
	var megabytes int
	if _, err := fmt.Sscan(string(output), &megabytes); err != nil {
		return err
	}
	return host.Quietly(exec.Command("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", folder, image,
		fmt.Sprintf("%dM", megabytes+megabytes/5+32)))
}

// debianSource is the release of this machine and the mirror it uses.
func debianSource() (suite, mirror string, err error) {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", "", err
	}
	for _, line := range strings.Split(string(release), "\n") {
		if value, ok := strings.CutPrefix(line, "VERSION_CODENAME="); ok {
			suite = strings.Trim(value, `"`)
		}
	}
	paths, _ := filepath.Glob("/etc/apt/sources.list.d/*.sources")
	for _, path := range append([]string{"/etc/apt/sources.list"}, paths...) {
		if text, err := os.ReadFile(path); err == nil && mirror == "" {
			mirror = firstMirror(string(text))
		}
	}
	if suite == "" || mirror == "" {
		return "", "", errors.New("this machine is not a Debian with apt sources, which the root disk of numa-node is made from; node-0 works without it")
	}
	return suite, mirror, nil
}

// firstMirror reads either format of apt's sources.
func firstMirror(sources string) string {
	for _, line := range strings.Split(sources, "\n") {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == "URIs:" {
			return fields[1]
		}
		if len(fields) > 1 && fields[0] == "deb" {
			for _, field := range fields[1:] {
				if strings.Contains(field, "://") {
					return field
				}
			}
		}
	}
	return ""
}

// kernelPackage is the package that Debian's small kernel for virtual machines
// is in now.
func kernelPackage() (string, error) {
	depends := func() string {
		output, _ := exec.Command("apt-cache", "depends", "linux-image-cloud-amd64").Output()
		for _, line := range strings.Split(string(output), "\n") {
			if _, name, ok := strings.Cut(line, "Depends: "); ok && strings.HasPrefix(name, "linux-image-") {
				return name
			}
		}
		return ""
	}
	if name := depends(); name != "" {
		return name, nil
	}
	if err := aptGet("update", "-q"); err != nil {
		return "", err
	}
	if name := depends(); name != "" {
		return name, nil
	}
	return "", errors.New("apt knows no package linux-image-cloud-amd64, which numa-node boots")
}
