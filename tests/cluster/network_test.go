package main

import (
	"slices"
	"strings"
	"testing"
)

const savedRules = `*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-A - [0:0]
:DOCKER - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -j DOCKER
-A KUBE-SERVICES -d 10.0.0.1/32 -j KUBE-SVC-A
-A DOCKER -j RETURN
COMMIT
`

func TestOnlyChainsOfTheClusterAreFound(t *testing.T) {
	want := []string{"nat/KUBE-SERVICES", "nat/KUBE-SVC-A"}
	if got := chainsOf(savedRules); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestRemovalDeletesTheJumpsAndLeavesForeignRules(t *testing.T) {
	got := removal("nat", []string{"KUBE-SERVICES", "KUBE-SVC-A"}, savedRules)
	want := `*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-A - [0:0]
-D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-X KUBE-SERVICES
-X KUBE-SVC-A
COMMIT
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestMountPointsComeDeepestFirst(t *testing.T) {
	mountinfo := strings.Join([]string{
		`22 1 8:1 / / rw - ext4 /dev/a rw`,
		`30 22 8:1 /x /state rw - ext4 /dev/a rw`,
		`31 30 8:1 /x /state/pod\040one rw - tmpfs tmpfs rw`,
		`32 22 8:1 /x /state-of-another rw - tmpfs tmpfs rw`,
	}, "\n")
	if got := mountPoints(mountinfo, "/state"); !slices.Equal(got, []string{"/state/pod one", "/state"}) {
		t.Errorf("got %q", got)
	}
}
