// guest is the only program of ours inside the virtual machine of numa-node. As
// /init of the initramfs it puts the root together and starts itself again from
// there as the agent, which runs the node's programs and obeys the driver.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"llama-operator.dev/testcluster/internal/machine"
)

func main() {
	if os.Getpid() == 1 {
		fmt.Println("guest:", initialize())
		powerOff()
	}
	text, err := os.ReadFile(machine.Settings)
	if err == nil {
		var settings machine.NodeSettings
		if err = json.Unmarshal(text, &settings); err == nil {
			err = newGuest(settings).run()
		}
	}
	fmt.Println("guest:", err)
	os.Exit(1)
}

// initialize is the life of process 1: boot, start the agent, reap orphans. It
// returns when that can't go on.
func initialize() error {
	if err := boot(); err != nil {
		return err
	}
	agent := exec.Command(machine.Guest)
	agent.Stdout, agent.Stderr = os.Stdout, os.Stderr
	agent.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	if err := agent.Start(); err != nil {
		return err
	}
	for {
		pid, err := syscall.Wait4(-1, nil, 0, nil)
		if err != nil && err != syscall.EINTR {
			return err
		}
		if pid == agent.Process.Pid {
			return fmt.Errorf("the agent ended")
		}
	}
}

func powerOff() {
	syscall.Sync()
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
}
