package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"testing"
)

func unpack(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	reader := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := reader.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnImageNamesItsFilesByTheirDigests(t *testing.T) {
	var archive bytes.Buffer
	if err := Write(&archive, "localhost/x:1", "x", []byte("program")); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, archive.Bytes())
	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 || manifest[0].RepoTags[0] != "localhost/x:1" {
		t.Fatalf("got %+v", manifest)
	}
	config := files[manifest[0].Config]
	if manifest[0].Config != digest(config)+".json" {
		t.Error("the name of the configuration is not its digest")
	}
	var image struct {
		Config struct {
			Entrypoint []string
			User       string
		} `json:"config"`
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(config, &image); err != nil {
		t.Fatal(err)
	}
	layer := files[manifest[0].Layers[0]]
	if image.RootFS.DiffIDs[0] != "sha256:"+digest(layer) {
		t.Error("the layer's digest differs")
	}
	if string(unpack(t, layer)["x"]) != "program" || image.Config.Entrypoint[0] != "/x" || image.Config.User == "" {
		t.Errorf("got %+v", image)
	}
}

func TestEqualProgramsGiveEqualImages(t *testing.T) {
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := Write(out, "localhost/x:1", "x", []byte("program")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("they differ")
	}
}
