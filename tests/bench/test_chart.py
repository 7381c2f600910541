from __future__ import annotations

from xml.etree import ElementTree

from tests.bench.chart import PLOT, bars

SVG = "{http://www.w3.org/2000/svg}"


def test_bars_are_as_high_as_their_values() -> None:
    picture = ElementTree.fromstring(
        bars(
            "Speed <tok/s>", {"1": {"ours": 100.0, "peer": 50.0}, "16": {"ours": 200.0, "peer": 0}}
        )
    )
    heights = [
        float(bar.attrib["height"])
        for bar in picture.iter(f"{SVG}rect")
        if bar.attrib["height"] not in ("100%", "12.0")
    ]
    assert heights == [PLOT / 2, PLOT / 4, PLOT, 0]
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    assert texts[:3] == ["Speed <tok/s>", "ours", "peer"]
    assert {"100", "50.0", "200", "0", "1", "16"} <= set(texts)


def test_everything_lies_within_the_picture() -> None:
    names = {f"series {index}": float(index) for index in range(4)}
    picture = ElementTree.fromstring(bars("t", {str(group): names for group in range(4)}))
    _, _, width, height = (float(number) for number in picture.attrib["viewBox"].split())
    for bar in picture.iter(f"{SVG}rect"):
        if bar.attrib["height"] != "100%":
            assert float(bar.attrib["x"]) + float(bar.attrib["width"]) <= width
            assert float(bar.attrib["y"]) + float(bar.attrib["height"]) <= height
