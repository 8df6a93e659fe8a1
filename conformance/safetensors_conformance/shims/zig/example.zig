//! An example of `stc_shim.zig` with a minimal reader, which checks almost nothing.
//!
//!     zig build-exe -O ReleaseSafe example.zig && stc check-protocol --impl "cmd:./example"

const std = @import("std");
const stc = @import("stc_shim.zig");

const Entry = struct { dtype: []const u8, shape: []const u64, data_offsets: [2]u64 };

fn read(io: std.Io, path: []const u8, with_data: bool, answer: *stc.Answer) !void {
    const file = try std.Io.Dir.cwd().readFileAlloc(io, path, answer.arena, .limited(1 << 30));
    if (file.len < 8) return answer.refuse("no length prefix");
    const length = std.mem.readInt(u64, file[0..8], .little);
    if (length > file.len - 8) return answer.refuse("the header leaves the file");
    const data = file[8 + length ..];
    const header = try std.json.parseFromSliceLeaky(std.json.Value, answer.arena, file[8 .. 8 + length], .{});
    if (header != .object) return answer.refuse("the header is no object");
    answer.noMetadata();
    var members = header.object.iterator();
    while (members.next()) |member| {
        if (std.mem.eql(u8, member.key_ptr.*, "__metadata__")) {
            const Map = std.json.ArrayHashMap([]const u8);
            const map = try std.json.parseFromValueLeaky(Map, answer.arena, member.value_ptr.*, .{});
            try answer.metadata(map.map.keys(), map.map.values());
            continue;
        }
        const entry = try std.json.parseFromValueLeaky(Entry, answer.arena, member.value_ptr.*, .{});
        const begin, const end = entry.data_offsets;
        if (begin > end or end > data.len) return answer.refuse("a range leaves the file");
        const bytes: ?[]const u8 = if (with_data) data[begin..end] else null;
        try answer.tensor(member.key_ptr.*, entry.dtype, entry.shape, bytes);
    }
}

pub fn main(init: std.process.Init) !void {
    try stc.serve(init, .{ .name = "example", .version = "1.0", .lacks = &.{"dtype-f4"} }, read);
}
