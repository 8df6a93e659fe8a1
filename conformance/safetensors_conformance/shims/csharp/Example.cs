// An example of StcShim with a minimal reader, which searches the header for
// known text. Your reader parses the JSON instead.
//
//     mcs -out:example.exe StcShim.cs Example.cs && stc check-protocol --impl "cmd:mono example.exe"

using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;
using System.Text.RegularExpressions;

public static class Example
{
    private static string Field(string entry, string name, string form)
    {
        var found = Regex.Match(entry, "\"" + name + "\"\\s*:\\s*" + form);
        if (!found.Success) throw new InvalidDataException("no " + name + " in " + entry);
        return found.Groups[1].Value;
    }

    private static List<ulong> Numbers(string entry, string name)
    {
        var digits = Field(entry, name, "\\[([^\\]]*)\\]").Split(',').Select(text => text.Trim());
        return digits.Where(text => text != "").Select(ulong.Parse).ToList();
    }

    private static void Read(string path, bool withData, StcShim.Answer answer)
    {
        var file = File.ReadAllBytes(path);
        if (file.Length < 8) throw new InvalidDataException("no length prefix");
        var length = BitConverter.ToUInt64(file, 0); // on a little-endian machine
        if (length < 2 || length > (ulong)file.Length - 8) throw new InvalidDataException("the header leaves the file");
        var header = new UTF8Encoding(false, true).GetString(file, 8, (int)length);
        var data = file.Skip(8 + (int)length).ToArray();
        if (header[0] != '{') throw new InvalidDataException("no header");
        Dictionary<string, string> metadata = null;
        foreach (Match entry in Regex.Matches(header, "\"([^\"]*)\"\\s*:\\s*\\{([^}]*)\\}"))
        {
            string name = entry.Groups[1].Value, fields = entry.Groups[2].Value;
            if (name == "__metadata__")
            {
                metadata = new Dictionary<string, string>();
                foreach (Match pair in Regex.Matches(fields, "\"([^\"]*)\"\\s*:\\s*\"([^\"]*)\""))
                    metadata[pair.Groups[1].Value] = pair.Groups[2].Value;
                continue;
            }
            var range = Numbers(fields, "data_offsets");
            if (range.Count != 2 || range[0] > range[1] || range[1] > (ulong)data.Length)
                throw new InvalidDataException("a range leaves the file");
            var bytes = data.Skip((int)range[0]).Take((int)(range[1] - range[0])).ToArray();
            var dtype = Field(fields, "dtype", "\"([^\"]*)\"");
            if (dtype.Length > 12) throw new StcShim.UnsupportedException(dtype);
            answer.Tensor(name, dtype, Numbers(fields, "shape"), withData ? bytes : null);
        }
        answer.Metadata(metadata);
    }

    public static int Main() { return StcShim.Serve("example", "1.0", new[] { "dtype-f4" }, Read); }
}
