//! Lets a safetensors reader in Zig take part in the conformance suite. Copy this file next to `main.zig`:
//!
//!     const stc = @import("stc_shim.zig");
//!
//!     fn read(io: std.Io, path: []const u8, with_data: bool, answer: *stc.Answer) !void {
//!         const file = try my_reader.open(io, answer.arena, path); // every error rejects the file
//!         for (file.tensors) |t|
//!             try answer.tensor(t.name, t.dtype, t.shape, if (with_data) t.bytes else null);
//!         if (file.metadata) |map| try answer.metadata(map.keys(), map.values()) else answer.noMetadata();
//!     }
//!
//!     pub fn main(init: std.process.Init) !void {
//!         try stc.serve(init, .{ .name = "my-reader", .version = "1.0", .lacks = &.{"dtype-f4"} }, read);
//!     }
//!
//! Report what your reader reports, and do not parse anything yourself. `return answer.refuse("why")` rejects a file
//! with a message. `return error.Unsupported` is for a valid file that the reader does not support. The shim reads
//! the requests one at a time, computes digests and writes the answers. It frees the memory of the arena after each
//! answer. It needs Zig 0.16 or newer.

const std = @import("std");

/// The program that answers.
pub const Program = struct {
    name: []const u8,
    version: []const u8,
    /// Features that the reader lacks, such as "dtype-f4".
    lacks: []const []const u8 = &.{},
};

/// The answer for one file.
pub const Answer = struct {
    arena: std.mem.Allocator,
    summary: bool,
    tensors: std.Io.Writer.Allocating,
    pairs: std.Io.Writer.Allocating,
    tells: enum { nothing, none, map } = .nothing,
    count: u64 = 0,
    why: ?[]const u8 = null,

    /// Reports a tensor. Pass null for whatever the reader does not report. The bytes must be in the order of the
    /// file, and are null if the file is only opened.
    pub fn tensor(a: *Answer, name: []const u8, dtype: ?[]const u8, shape: ?[]const u64, bytes: ?[]const u8) !void {
        const out = &a.tensors.writer;
        a.count += 1;
        if (a.summary) return;
        try out.writeAll(if (a.count > 1) ", {\"name\": " else "{\"name\": ");
        try quoted(out, name);
        if (dtype) |code| {
            try out.writeAll(", \"dtype\": ");
            try quoted(out, code);
        }
        if (shape) |dims| {
            try out.writeAll(", \"shape\": [");
            for (dims, 0..) |dim, at| try out.print("{s}{d}", .{ if (at > 0) ", " else "", dim });
            try out.writeAll("]");
        }
        if (bytes) |data| {
            var digest: [32]u8 = undefined;
            std.crypto.hash.sha2.Sha256.hash(data, &digest, .{});
            try out.print(", \"nbytes\": {d}, \"sha256\": \"{x}\"", .{ data.len, &digest });
        }
        try out.writeAll("}");
    }

    /// Reports the metadata map.
    pub fn metadata(a: *Answer, keys: []const []const u8, values: []const []const u8) !void {
        const out = &a.pairs.writer;
        a.tells = .map;
        for (keys, values) |key, value| {
            try out.writeAll(if (out.end > 0) ", [" else "[");
            try quoted(out, key);
            try out.writeAll(", ");
            try quoted(out, value);
            try out.writeAll("]");
        }
    }

    /// Reports that the file has no metadata.
    pub fn noMetadata(a: *Answer) void {
        a.tells = .none;
    }

    /// Returns the error that rejects the file, and keeps the reason.
    pub fn refuse(a: *Answer, why: []const u8) error{Refused} {
        a.why = why;
        return error.Refused;
    }

    fn write(a: *Answer, out: *std.Io.Writer) !void {
        if (a.summary) return out.print(", \"tensor_count\": {d}", .{a.count});
        try out.print(", \"tensors\": [{s}]", .{a.tensors.written()});
        switch (a.tells) {
            .nothing => {},
            .none => try out.writeAll(", \"metadata\": null"),
            .map => try out.print(", \"metadata_items\": [{s}]", .{a.pairs.written()}),
        }
    }
};

const Request = struct {
    cmd: []const u8,
    seq: u64 = 0,
    step: []const u8 = "",
    path: []const u8 = "",
    summary: bool = false,
};

/// Answers requests until there are no more. `read` is a function of (std.Io, path, with_data, *Answer).
pub fn serve(init: std.process.Init, program: Program, read: anytype) !void {
    var input: [4096]u8 = undefined;
    var output: [4096]u8 = undefined;
    var requests = std.Io.File.stdin().readerStreaming(init.io, &input);
    var answers = std.Io.File.stdout().writerStreaming(init.io, &output);
    while (true) {
        var arena: std.heap.ArenaAllocator = .init(std.heap.page_allocator);
        defer arena.deinit();
        var line: std.Io.Writer.Allocating = .init(arena.allocator());
        _ = try requests.interface.streamDelimiterEnding(&line.writer, '\n');
        if (line.written().len == 0) return;
        requests.interface.toss(1); // the end of the line
        const asked = try std.json.parseFromSliceLeaky(Request, arena.allocator(), line.written(), .{ .ignore_unknown_fields = true });
        if (std.mem.eql(u8, asked.cmd, "stop")) return;
        if (std.mem.eql(u8, asked.cmd, "start")) {
            try start(&answers.interface, program);
        } else {
            try run(init.io, arena.allocator(), &answers.interface, asked, read);
        }
        try answers.interface.flush(); // otherwise the harness waits forever
    }
}

fn start(out: *std.Io.Writer, program: Program) !void {
    try out.writeAll("{\"protocol\": 1, \"steps\": [\"open\", \"read\"], \"implementation\": {\"name\": ");
    try quoted(out, program.name);
    try out.writeAll(", \"version\": ");
    try quoted(out, program.version);
    try out.writeAll(", \"language\": \"Zig\"}, \"lacks\": [");
    for (program.lacks, 0..) |feature, at| {
        if (at > 0) try out.writeAll(", ");
        try quoted(out, feature);
    }
    try out.writeAll("]}\n");
}

fn run(io: std.Io, arena: std.mem.Allocator, out: *std.Io.Writer, asked: Request, read: anytype) !void {
    try out.print("{{\"seq\": {d}, \"outcome\": ", .{asked.seq});
    const reading = std.mem.eql(u8, asked.step, "read");
    if (!reading and !std.mem.eql(u8, asked.step, "open")) return out.writeAll("\"unsupported\"}\n");
    var answer: Answer = .{ .arena = arena, .summary = asked.summary, .tensors = .init(arena), .pairs = .init(arena) };
    if (read(io, asked.path, reading, &answer)) {
        try out.writeAll("\"accept\"");
        try answer.write(out);
    } else |err| {
        const outcome = switch (@as(anyerror, err)) {
            error.Unsupported => "unsupported",
            error.OutOfMemory => "exhausted",
            else => "reject",
        };
        try out.print("\"{s}\", \"message\": ", .{outcome});
        try quoted(out, answer.why orelse @errorName(err));
    }
    try out.writeAll("}\n");
}

/// Writes a JSON string, or {"hex": ...} for bytes that are not UTF-8.
fn quoted(out: *std.Io.Writer, bytes: []const u8) !void {
    if (!std.unicode.utf8ValidateSlice(bytes)) return out.print("{{\"hex\": \"{x}\"}}", .{bytes});
    try out.writeAll("\"");
    for (bytes) |byte| {
        switch (byte) {
            0...0x1f, '"', '\\' => try out.print("\\u{x:0>4}", .{byte}),
            else => try out.writeAll(&.{byte}),
        }
    }
    try out.writeAll("\"");
}
