package main

import (
	"fmt"
	"path/filepath"

	"llama-operator.dev/testcluster/internal/machine"
)

// qemu is the command of the virtual machine: 8 CPUs and 6 GiB in two NUMA
// nodes, a PCI display device on each (sysfs gives its node, as for a GPU), the
// three disks that it boots from and one network card.
func (s *State) qemu(options machineOptions, disks string) []string {
	command := []string{"qemu-system-x86_64", "-nodefaults", "-no-reboot", "-machine", "q35", "-cpu", "max"}
	if options.Accelerator == "kvm" {
		command = append(command, "-accel", "kvm")
	} else {
		command = append(command, "-accel", "tcg,thread=multi")
	}
	command = append(command, "-smp", "8,sockets=2,cores=4,threads=1", "-m", fmt.Sprintf("%dM", 2*machineNodeMiB))
	for node := range 2 {
		command = append(command,
			"-object", fmt.Sprintf("memory-backend-ram,id=memory%d,size=%dM", node, machineNodeMiB),
			"-numa", fmt.Sprintf("node,nodeid=%d,cpus=%d-%d,memdev=memory%d", node, 4*node, 4*node+3, node))
	}
	command = append(command, "-numa", "dist,src=0,dst=1,val=21")
	for node := range 2 {
		command = append(command,
			"-device", fmt.Sprintf("pxb-pcie,id=root%d,bus=pcie.0,bus_nr=%d,numa_node=%d", node, 64*(node+1), node),
			"-device", fmt.Sprintf("pcie-root-port,id=port%d,bus=root%d,chassis=%d", node, node, node+1),
			"-device", fmt.Sprintf("bochs-display,bus=port%d", node))
	}
	for _, disk := range []struct{ serial, path, options string }{
		{machine.DiskSerials.Root, filepath.Join(disks, "root.img"), "readonly=on"},
		{machine.DiskSerials.Config, s.Path("machine", "config.img"), "readonly=on"},
		{machine.DiskSerials.Scratch, s.Path("machine", "scratch.img"), "cache=unsafe"},
	} {
		command = append(command,
			"-drive", fmt.Sprintf("if=none,id=%s,format=raw,file=%s,%s", disk.serial, disk.path, disk.options),
			// The bus must be named: the added root buses take no such device.
			"-device", fmt.Sprintf("virtio-blk-pci,bus=pcie.0,drive=%s,serial=%s", disk.serial, disk.serial))
	}
	return append(command,
		"-netdev", "tap,id=network,ifname="+tapName+",script=no,downscript=no",
		"-device", "virtio-net-pci,bus=pcie.0,netdev=network",
		"-kernel", filepath.Join(disks, "vmlinuz"), "-initrd", s.Path("machine", "initramfs"),
		// On a busy host the kernel's check of its timer fails without need.
		"-append", "console=ttyS0 quiet panic=-1 no_timer_check nowatchdog mitigations=off",
		"-vga", "none", "-display", "none", "-monitor", "none", "-serial", "file:"+s.logPath("virtual-machine-console"))
}
