// Package machine is what the driver and the program inside the virtual machine
// must agree on.
package machine

// Paths in the virtual machine.
const (
	ConfigDisk = "/config"  // read-only, with the files of this cluster
	DataDisk   = "/scratch" // empty at each boot
	Guest      = ConfigDisk + "/guest"
	Settings   = ConfigDisk + "/settings.json"
	Logs       = "/var/log/testcluster"
)

// DiskSerials name the disks that the machine boots from: the Debian root, the
// files of this cluster and the empty disk.
var DiskSerials = struct{ Root, Config, Scratch string }{"root", "config", "scratch"}

// ExitCodeTrailer is the HTTP trailer with the exit code of a command.
const ExitCodeTrailer = "X-Exit-Code"

// NodeSettings is what the driver tells the virtual machine.
type NodeSettings struct {
	Token    string `json:"token"` // every request to the agent must carry it
	Hostname string `json:"hostname"`
	Address  string `json:"address"` // IPv4 without the prefix length, which is 24
	Port     int    `json:"port"`    // of the agent
	Gateway  string `json:"gateway"`
	// Containerd and Programs are commands that run for ever. The programs
	// start when containerd answers on its socket and has the pause image.
	Containerd       []string  `json:"containerd"`
	ContainerdSocket string    `json:"containerdSocket"`
	PauseImage       string    `json:"pauseImage"` // path of its archive
	Programs         []Program `json:"programs"`
	FakeGPUs         []int64   `json:"fakeGPUs"` // the NUMA node of each
}

// Program is a command with a name for its log.
type Program struct {
	Name    string   `json:"name"`
	Command []string `json:"command"`
}
