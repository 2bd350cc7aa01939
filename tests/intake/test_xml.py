from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakesmith.intake import xml
from lakesmith.intake.rows import Broken, Target, Unreadable, fit_rows
from lakesmith.intake.split import MAX_RECORD


def read(document: str | bytes, row_tag: str = "row", *, piece: int = 1 << 20) -> list[object]:
    """Return the records of a document that is read in chunks."""
    return [record for _, _, record in found(document, row_tag, piece=piece)]


def found(
    document: str | bytes, row_tag: str = "row", *, piece: int = 1 << 20
) -> list[tuple[int, bytes, dict[str, xml.Value] | Unreadable]]:
    data = document.encode() if isinstance(document, str) else document
    return list(xml.records((data[start : start + piece] for start in range(0, len(data), piece)), row_tag))


def one(content: str) -> object:
    (record,) = read(f"<rows>{content}</rows>")
    return record


def rejected(document: str | bytes, row_tag: str = "row") -> Broken:
    with pytest.raises(Broken) as raised:
        read(document, row_tag)
    return raised.value


def test_a_child_element_is_a_field_of_its_text() -> None:
    assert one("<row><id> 1 </id><name>Ä &amp; B</name></row>") == {"id": " 1 ", "name": "Ä & B"}


def test_an_element_with_elements_is_a_struct() -> None:
    assert one("<row><to>\n<city>Ulm</city>\n</to></row>") == {"to": {"city": "Ulm"}}


def test_elements_of_one_name_are_a_list() -> None:
    assert one("<row><item>a</item><x>1</x><item>b</item><item/></row>") == {"item": ["a", "b", None], "x": "1"}


def test_a_list_of_lists_is_reported_from_a_longer_list() -> None:
    assert one("<row><g><i>1</i><i>2</i></g><g><i>3</i></g></row>") == {"g": [{"i": ["1", "2"]}, {"i": "3"}]}


def test_an_attribute_has_an_underscore_before_its_name() -> None:
    assert one('<row id="7"><id>8</id></row>') == {"_id": "7", "id": "8"}


def test_an_attribute_with_a_used_name_gets_a_prefix() -> None:
    assert one('<row key="k" VALUE="v"/>') == {"_key_attribute": "k", "_VALUE_attribute": "v"}


def test_text_beside_attributes_is_the_value() -> None:
    assert one('<row><weight unit="kg">5</weight></row>') == {"weight": {"_unit": "kg", "_VALUE": "5"}}


def test_text_between_elements_is_stored() -> None:
    assert one("<row>see <b>this</b></row>") == {"b": "this", "_VALUE": "see "}


def test_an_element_without_content_is_null() -> None:
    assert one("<row><a/><b></b></row>") == {"a": None, "b": None}


def test_an_element_marked_nil_is_null() -> None:
    nil = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:nil="true"'
    assert one(f"<row><a {nil}></a></row>") == {"a": None}


def test_cdata_is_text_and_comments_are_ignored() -> None:
    assert one("<row><a><![CDATA[<x>]]><!-- no -->!</a><?no no?></row>") == {"a": "<x>!"}


def test_namespaces_are_removed_from_names() -> None:
    document = '<f:rows xmlns:f="urn:f" xmlns="urn:g"><f:row f:n="1"><a>2</a></f:row></f:rows>'
    assert read(document) == read(document, "f:row") == [{"_n": "1", "a": "2"}]


def test_names_that_differ_only_in_their_namespace_are_reported() -> None:
    problem = one('<row xmlns:b="urn:b"><id>1</id><b:id>2</b:id></row>')
    assert problem == Unreadable("names-collide", "'id' and 'urn:b id' would both be the field 'id'")


def test_names_that_differ_only_in_case_are_reported_and_the_next_row_is_read() -> None:
    first, second = read("<rows><row><id>1</id><ID>2</ID><x/></row><row><id>3</id></row></rows>")
    assert isinstance(first, Unreadable)
    assert second == {"id": "3"}


def test_attributes_that_collide_are_reported_and_the_next_row_is_read() -> None:
    document = '<rows xmlns:b="urn:b"><row id="1" b:id="2"><x/></row><row id="3"/></rows>'
    assert read(document) == [
        Unreadable("names-collide", "'@id' and '@urn:b id' would both be the field '_id'"),
        {"_id": "3"},
    ]


def test_a_row_within_a_row_is_a_field() -> None:
    assert one("<row><row><a>1</a></row></row>") == {"row": {"a": "1"}}


def test_the_root_can_be_the_row() -> None:
    assert read("<row><a>1</a></row>") == [{"a": "1"}]


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_a_row_has_its_line_and_raw_text(piece: int) -> None:
    document = '<rows>\n <row n="1"/>\n <row>\n  <a>ü</a>\n </row  ><row/></rows>'
    assert [(line, raw.decode()) for line, raw, _ in found(document, piece=piece)] == [
        (2, '<row n="1"/>'),
        (3, "<row>\n  <a>ü</a>\n </row  >"),
        (5, "<row/>"),
    ]


def test_a_root_without_elements_has_no_rows() -> None:
    assert read("<rows/>") == []


def test_the_error_for_a_missing_row_element_names_the_existing_ones() -> None:
    broken = rejected("<orders><order/><total/></orders>")
    assert broken.code == "no-row-element"
    assert "the root is 'orders', with the elements order, total" in broken.what


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE r [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>',
        '<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE r SYSTEM "http://localhost/r.dtd">',
    ],
)
def test_entities_are_rejected_before_they_are_read(doctype: str) -> None:
    assert rejected(f"{doctype}<r><row>&b;</row></r>").code == "xml-entities"


@pytest.mark.parametrize("document", ["", "<rows>", "<rows><row><a>1</a>", "<rows><row></row", "<rows><![CDATA[x"])
def test_a_truncated_file_is_reported(document: str) -> None:
    assert rejected(document).code == "truncated-xml"


@pytest.mark.parametrize(
    "document", ["a,b\n1,2", "<rows>\n<row></rows>", "<rows/><rows/>", "<rows>&nbsp;</rows>", "{}"]
)
def test_invalid_xml_is_reported(document: str) -> None:
    assert rejected(document).code == "not-xml"


def test_the_line_is_reported_where_a_file_stops_being_xml() -> None:
    assert rejected("<rows>\n<row><a></b></row></rows>").what == "line 2, column 11: mismatched tag"


def test_rows_are_returned_before_the_rest_is_read() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"<rows><row><a>1</a></row>" + b" " * 2_000_000
        raise AssertionError("too much was asked for")

    assert next(xml.records(pieces(), "row"))[2] == {"a": "1"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "iso-8859-1", "windows-1252", "utf-8-sig"])
def test_the_encoding_is_what_the_file_declares(encoding: str) -> None:
    declared = {"utf-16-le": "utf-16", "utf-8-sig": "utf-8"}.get(encoding, encoding)
    document = f'<?xml version="1.0" encoding="{declared}"?><rows><row><a>Größe</a></row></rows>'
    for piece in (3, 1000):
        assert read(document.encode(encoding), piece=piece) == [{"a": "Größe"}]


def test_a_file_converted_to_utf8_can_declare_its_old_encoding() -> None:
    assert read('<?xml version="1.0" encoding="UTF-16"?><rows><row><a>ö</a></row></rows>') == [{"a": "ö"}]


def test_a_set_encoding_overrides_the_declared_one() -> None:
    data = '<?xml version="1.0" encoding="iso-8859-1"?><rows><row><a>ö</a></row></rows>'.encode()
    assert [record for _, _, record in xml.records([data], "row", encoding="utf-8")] == [{"a": "ö"}]


def test_bytes_outside_the_encoding_are_reported() -> None:
    assert rejected("<rows><row>ö</row></rows>".encode("latin-1")).code == "bad-encoding"


@pytest.mark.parametrize("name", ["klingon", "base64"])
def test_an_unknown_encoding_is_reported(name: str) -> None:
    assert rejected(f'<?xml version="1.0" encoding="{name}"?><rows/>').code == "bad-encoding"


def test_a_too_deep_row_is_unreadable_and_the_next_one_is_read() -> None:
    deep = "<a>" * 10_000 + "</a>" * 10_000
    first, second = read(f"<rows><row>{deep}</row><row><a>1</a></row></rows>")
    assert first == Unreadable("too-deep", "elements are nested more than 200 deep")
    assert second == {"a": "1"}


def test_a_too_long_row_is_skipped_and_the_next_one_is_read() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"<rows><row><a>head"
        for _ in range(2 * MAX_RECORD // (1 << 20)):
            yield b"x" * (1 << 20)
        yield b"</a></row>\n<row><a>1</a></row></rows>"

    (_, raw, first), (line, text, second) = xml.records(pieces(), "row")
    assert isinstance(first, Unreadable)
    assert first.code == "record-too-long"
    assert raw.startswith(b"<row><a>head")
    assert len(raw) < 4 << 20
    assert (line, text, second) == (2, b"<row><a>1</a></row>", {"a": "1"})


def test_an_unclosed_tag_is_reported_before_it_fills_the_memory() -> None:
    def pieces() -> Iterator[bytes]:
        yield b'<rows><row a="'
        for _ in range(1000):
            yield b"x" * (1 << 20)

    with pytest.raises(Broken, match="a tag is longer"):
        list(xml.records(pieces(), "row"))


def test_a_single_value_becomes_a_list_for_a_list_column() -> None:
    schema = pa.schema(
        [("Item", pa.list_(pa.struct([("sku", pa.string()), ("tag", pa.list_(pa.string()))]))), ("note", pa.string())]
    )
    record: dict[str, xml.Value] = {"item": {"sku": "a", "tag": "x"}, "note": "n", "new": "y"}
    assert xml.normalise(record, Target(schema=schema)) == {
        "item": [{"sku": "a", "tag": ["x"]}],
        "note": "n",
        "new": "y",
    }


def test_a_text_becomes_a_struct_for_a_column_with_attributes() -> None:
    schema = pa.schema([("weight", pa.struct([("_unit", pa.string()), ("_VALUE", pa.int64())]))])
    normal = xml.normalise({"weight": "5"}, Target(schema=schema))
    rows = fit_rows([normal], [b""], Target(schema=schema, text=True))
    assert rows.to_pylist()[0]["weight"] == {"_unit": None, "_VALUE": 5}


def test_values_are_read_as_the_types_of_their_columns() -> None:
    schema = pa.schema([("id", pa.int64()), ("price", pa.decimal128(8, 2)), ("day", pa.date32())])
    record = read("<rows><row><id>1</id><price>2.50</price><day>yesterday</day></row></rows>")[0]
    assert isinstance(record, dict)
    (row,) = fit_rows([record], [b""], Target(schema=schema, text=True)).to_pylist()
    assert (row["id"], str(row["price"]), row["day"], row["_rescued"]) == (1, "2.50", None, '{"day": "yesterday"}')


def test_a_value_and_a_list_are_surveyed_as_a_list() -> None:
    document = '<rows><row><i>1</i><w>1</w></row><row><i>1</i><i a="1">2</i><w u="kg">2</w><e/></row></rows>'
    assert xml.shape(value for _, _, value in found(document)) == pa.struct(
        [
            ("i", pa.list_(pa.struct([("_VALUE", pa.string()), ("_a", pa.string())]))),
            ("w", pa.struct([("_VALUE", pa.string()), ("_u", pa.string())])),
            ("e", pa.null()),
        ]
    )


def test_invalid_column_names_are_not_surveyed() -> None:
    assert xml.shape([{"_lakesmith_x": "1", "_run_id": "2", "a": {"_rescued": "3"}}]) == pa.struct([("a", pa.string())])
