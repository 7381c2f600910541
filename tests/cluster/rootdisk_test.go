package main

import (
	"bytes"
	"slices"
	"testing"
)

func TestModulesComeAfterTheirDependencies(t *testing.T) {
	modulesDep := `kernel/drivers/virtio/virtio.ko:
kernel/drivers/virtio/virtio_ring.ko: kernel/drivers/virtio/virtio.ko
kernel/drivers/virtio/virtio_pci.ko: kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko
kernel/drivers/block/virtio-blk.ko.xz: kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko
`
	want := []string{"kernel/drivers/virtio/virtio.ko", "kernel/drivers/virtio/virtio_ring.ko",
		"kernel/drivers/virtio/virtio_pci.ko", "kernel/drivers/block/virtio-blk.ko.xz"}
	if got := loadOrder(modulesDep, []string{"virtio_pci", "virtio_blk", "built_in"}); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestFirstMirrorReadsBothFormats(t *testing.T) {
	for sources, want := range map[string]string{
		"Types: deb\n# old\nURIs: http://deb.example/debian\nSuites: bookworm\n":        "http://deb.example/debian",
		"# a comment\ndeb [signed-by=/k.gpg] http://deb.example/debian bookworm main\n": "http://deb.example/debian",
		"": "",
	} {
		if got := firstMirror(sources); got != want {
			t.Errorf("%q: got %q", sources, got)
		}
	}
}

func TestCPIOIsAlignedAndEnds(t *testing.T) {
	var out bytes.Buffer
	if err := writeCPIO(&out, []entry{{name: "init", mode: modeProgram, content: []byte("12345")}}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	const header = 110
	if out.Len()%4 != 0 || text[:6] != "070701" || text[header:header+4] != "init" {
		t.Errorf("got %q", text)
	}
	content := header + len("init\x00") // 115, aligned to 116
	if text[content+1:content+6] != "12345" || !bytes.Contains(out.Bytes(), []byte("TRAILER!!!")) {
		t.Errorf("got %q", text)
	}
}
